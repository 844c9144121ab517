// What the default stream waits for: the legacy one waits for every blocking stream before and after it, the
// per-thread one for none. A blocked host function shows which.
// run: also=per-thread
#include "check.h"

#include <atomic>
#include <thread>

static std::atomic<bool> released{false};

static void CUDART_CB hold(void*) {
  while (!released) std::this_thread::yield();
}

__global__ void set(int* to, int value) { *to = value; }
__global__ void copy(const int* from, int* to) { *to = *from; }

int main() {
  cudaStream_t blocking, other;
  CALL(cudaStreamCreate(&blocking));
  CALL(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  Buffer<int> values(std::vector<int>{0, 0, 0});
  CALL(cudaLaunchHostFunc(blocking, hold, nullptr));
  set<<<1, 1, 0, blocking>>>(values, 5);
  set<<<1, 1>>>(values + 1, 6);  // the default stream
  set<<<1, 1, 0, other>>>(values + 2, 7);
  LAUNCHED();
  CALL(cudaStreamSynchronize(other));  // waits for no other stream
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  CALL(cudaStreamSynchronize(cudaStreamPerThread));   // would hang if it waited for the blocked stream
  set<<<1, 1, 0, cudaStreamLegacy>>>(values + 1, 6);  // this one does wait
  FAILS(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
#else
  FAILS(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
#endif
  copy<<<1, 1, 0, blocking>>>(values + 1, values);  // runs after the legacy stream's kernel
  LAUNCHED();
  released = true;
  CALL(cudaDeviceSynchronize());
  expect_same(values.host(), std::vector<int>{6, 6, 7});
  digest(values.host());
  CALL(cudaStreamDestroy(blocking));
  CALL(cudaStreamDestroy(other));
  return finish();
}
