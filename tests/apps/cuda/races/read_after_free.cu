// run: ways=static
// A kernel reads memory that was freed: `right` reads it before.
#include "../check.h"

__global__ void copy(const int* from, int* to, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}

int main(int, char** arguments) {
  bool right = std::strcmp(arguments[1], "right") == 0;
  const int n = 300;
  for (int round = 0; round < 5; round++) {
    Buffer<int> out(n);
    std::vector<int> values(n, round + 5);
    int* memory;
    CALL(cudaMalloc(&memory, n * sizeof(int)));
    CALL(cudaMemcpy(memory, values.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    if (right) copy<<<1, 64>>>(memory, out, n);
    CALL(cudaFree(memory));
    if (!right) copy<<<1, 64>>>(memory, out, n);
    LAUNCHED();
    expect_same(out.host(), values);
  }
  return finish();
}
