// __trap, and a launch after it: the error stays until the device is reset.
#include "child.h"

__global__ void die(int thread) {
  if (threadIdx.x == thread) __trap();
}

__global__ void set(int* to) { *to = 5; }

int main() {
  Ended ended = in_child([] {
    Buffer<int> memory(1);
    die<<<1, 32>>>(40);  // no thread has this number
    CALL(cudaDeviceSynchronize());
    die<<<4, 32>>>(7);
    FAILS(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    set<<<1, 1>>>(memory);
    FAILS(cudaPeekAtLastError(), cudaErrorLaunchFailure);
    int value;
    FAILS(cudaMemcpy(&value, memory, 4, cudaMemcpyDeviceToHost), cudaErrorLaunchFailure);
    cudaStream_t stream;
    FAILS(cudaStreamCreate(&stream), cudaErrorLaunchFailure);
  });
  expect_child(ended, "trap");
  return finish();
}
