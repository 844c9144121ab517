// Two streams whose kernels wait for each other (so they must overlap), events between streams, queries that
// return at once.
// run: also=per-thread
#include "check.h"

__global__ void say_and_wait(volatile int* mine, volatile int* other) {
  *mine = 1;
  __threadfence_system();
  while (*other == 0) __nanosleep(1000);
}

__global__ void wait_for(volatile int* flag) {
  while (*flag == 0) __nanosleep(1000);
}

__global__ void fill(int* data, int n, int value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] = value + i;
}

__global__ void twice(const int* in, int* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = 2 * in[i];
}

int main() {
  cudaStream_t a, b;
  CALL(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  Buffer<int> flags(std::vector<int>(2));
  say_and_wait<<<1, 1, 0, a>>>(flags.data, flags.data + 1);
  say_and_wait<<<1, 1, 0, b>>>(flags.data + 1, flags.data);
  LAUNCHED();
  CALL(cudaStreamSynchronize(a));
  CALL(cudaStreamSynchronize(b));

  // A launch returns before the kernel runs: the kernel waits for a value that the host writes after the
  // launch.
  int *flag, *flag_on_device;
  CALL(cudaHostAlloc(&flag, sizeof(int), cudaHostAllocMapped));
  *flag = 0;
  CALL(cudaHostGetDevicePointer(&flag_on_device, flag, 0));
  const int n = 5000;
  Buffer<int> x(n), y(n);
  cudaEvent_t filled;
  CALL(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
  wait_for<<<1, 1, 0, a>>>(flag_on_device);
  fill<<<8, 64, 0, a>>>(x, n, 7);
  CALL(cudaEventRecord(filled, a));
  CALL(cudaStreamWaitEvent(b, filled, 0));
  twice<<<8, 64, 0, b>>>(x, y, n);
  LAUNCHED();
  FAILS(cudaStreamQuery(a), cudaErrorNotReady);
  FAILS(cudaStreamQuery(b), cudaErrorNotReady);
  FAILS(cudaEventQuery(filled), cudaErrorNotReady);
  *reinterpret_cast<volatile int*>(flag) = 1;
  CALL(cudaStreamSynchronize(b));
  CALL(cudaEventQuery(filled));
  CALL(cudaStreamQuery(a));
  std::vector<int> expected(n);
  for (int i = 0; i < n; i++) expected[i] = 2 * (7 + i);
  expect_same(y.host(), expected);
  digest(y.host());
  CALL(cudaEventDestroy(filled));
  CALL(cudaStreamDestroy(a));
  CALL(cudaStreamDestroy(b));
  CALL(cudaFreeHost(flag));
  return finish();
}
