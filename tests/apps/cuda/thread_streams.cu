// nvcc: -Xcompiler -pthread
// Default streams of two threads. With one per thread, their kernels run concurrently (each waits for the
// other's word). The legacy default stream would make them hang, so in that build the threads use
// cudaStreamPerThread.
// run: also=per-thread
#include <thread>

#include "check.h"

__global__ void meet(volatile int* mine, volatile int* other, int* out) {
  *mine = 1;
  __threadfence();
  while (*other == 0) __nanosleep(1000);
  *out += 1;
}

int main() {
  Buffer<int> flags(std::vector<int>(4));
  auto work = [&](int me) {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    cudaStream_t stream = 0;
#else
    cudaStream_t stream = cudaStreamPerThread;
#endif
    meet<<<1, 1, 0, stream>>>(flags.data + me, flags.data + 1 - me, flags.data + 2 + me);
    LAUNCHED();
    CALL(cudaStreamSynchronize(stream));
    int out;
    CALL(cudaMemcpyAsync(&out, flags + 2 + me, sizeof out, cudaMemcpyDeviceToHost, stream));
    CALL(cudaStreamSynchronize(stream));
    EXPECT(out == 1);
  };
  std::thread one(work, 0), two(work, 1);
  one.join();
  two.join();
  expect_same(flags.host(), std::vector<int>{1, 1, 1, 1});
  digest(flags.host());
  return finish();
}
