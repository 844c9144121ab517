// run: ways=static
// One stream frees stream-ordered memory and reuses it for something else while another stream still reads
// it. `right` has an event in between.
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
  Buffer<int> out(n * rounds);
  for (int round = 0; round < rounds; round++) {
    int *data, *other;
    CALL(cudaMallocAsync(&data, n * sizeof(int), one));
    fill<<<1, 64, 0, one>>>(data, n, round + 1);
    CALL(cudaEventRecord(filled, one));
    CALL(cudaStreamWaitEvent(two, filled, 0));
    copy<<<1, 64, 0, two>>>(data, out + round * n, n);
    CALL(cudaEventRecord(copied, two));
    if (right) CALL(cudaStreamWaitEvent(one, copied, 0));
    CALL(cudaFreeAsync(data, one));
    CALL(cudaMallocAsync(&other, n * sizeof(int), one));
    fill<<<1, 64, 0, one>>>(other, n, -1);
    CALL(cudaFreeAsync(other, one));
    LAUNCHED();
  }
  CALL(cudaDeviceSynchronize());
  std::vector<int> got = out.host(), expected(n * rounds);
  for (int i = 0; i < n * rounds; i++) expected[i] = i / n + 1;
  expect_same(got, expected);
  return finish();
}
