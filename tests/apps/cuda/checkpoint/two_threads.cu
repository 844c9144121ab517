// nvcc: -std=c++17 -Xcompiler -pthread
// run: ways=static,per-thread also=per-thread
// Two threads launch concurrently, each on its own stream and memory, and take turns on a third block; each
// has its own last error.
#include <pthread.h>

#include "saved.h"

static pthread_barrier_t barrier;
static unsigned* common;
static uint64_t results[2];

__global__ void stir(unsigned* values, int n, unsigned with) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = values[i] * 1664525u + with + static_cast<unsigned>(i);
}

static void* work(void* which) {
  const unsigned self = static_cast<unsigned>(reinterpret_cast<uintptr_t>(which));
  const int n = 3000;
  CALL(cudaSetDevice(0));
  cudaStream_t stream;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Buffer<unsigned> values(std::vector<unsigned>(n, self));
  uint64_t digest = 0;
  for (long step = 0; step < steplog_steps; step++) {
    if (self == 0) EXPECT(cudaPeekAtLastError() == (step ? cudaErrorInvalidValue : cudaSuccess));
    if (self == 1) EXPECT(cudaPeekAtLastError() == cudaSuccess);
    if (self == 0) cudaGetLastError();
    for (unsigned k = 0; k < 4; k++) stir<<<(n + 127) / 128, 128, 0, stream>>>(values, n, k * 2 + self);
    if (step % 2 == self) stir<<<(n + 127) / 128, 128, 0, stream>>>(common, n, self);
    LAUNCHED();
    CALL(cudaStreamSynchronize(stream));
    for (unsigned v : values.host()) digest = digest * 31 + v;
    if (self == 0) cudaMemcpy(nullptr, values, 4, cudaMemcpyDeviceToHost);  // fails, and sets the last error
    pthread_barrier_wait(&barrier);
    if (self == 0) steplog_step();
    pthread_barrier_wait(&barrier);
  }
  results[self] = digest;
  CALL(cudaStreamDestroy(stream));
  return nullptr;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  CALL(cudaMalloc(&common, 12000));
  CALL(cudaMemset(common, 0, 12000));
  pthread_barrier_init(&barrier, nullptr, 2);
  pthread_t other;
  pthread_create(&other, nullptr, work, reinterpret_cast<void*>(1));
  work(nullptr);
  pthread_join(other, nullptr);
  std::vector<unsigned> there(3000);
  CALL(cudaMemcpy(there.data(), common, 12000, cudaMemcpyDeviceToHost));
  mix(there);
  steplog_mix(results[0]);
  steplog_mix(results[1]);
  cudaGetLastError();
  nonce.back();
  steplog_ok();
  return 0;
}
