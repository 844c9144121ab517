// run: ways=static
// One stream fills an array that another one sums: `right` has an event in between, `wrong` has none.
#include "../check.h"

__global__ void fill(int* data, int n, int value) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = value;
}

__global__ void copy(const int* from, int* to, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}

int main(int, char** arguments) {
  bool right = std::strcmp(arguments[1], "right") == 0;
  const int n = 500, rounds = 20;
  cudaStream_t one, two;
  CALL(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
  cudaEvent_t filled, copied;
  CALL(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
  CALL(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
  Buffer<int> data(n), out(n * rounds);
  data.zero();
  for (int round = 0; round < rounds; round++) {
    fill<<<1, 64, 0, one>>>(data, n, round + 1);
    CALL(cudaEventRecord(filled, one));
    if (right) CALL(cudaStreamWaitEvent(two, filled, 0));
    copy<<<1, 64, 0, two>>>(data, out + round * n, n);
    CALL(cudaEventRecord(copied, two));
    if (right) CALL(cudaStreamWaitEvent(one, copied, 0));
    LAUNCHED();
  }
  CALL(cudaDeviceSynchronize());
  std::vector<int> got = out.host(), expected(n * rounds);
  for (int i = 0; i < n * rounds; i++) expected[i] = i / n + 1;
  expect_same(got, expected);
  return finish();
}
