// nvcc: -std=c++17 -Xcompiler -pthread
// run: ways=static
// Two threads on the second device. The first call of each step fails, since it names a missing device; in
// the second thread it follows a wait for a stream. The failed call does not change the current device.
#include <thread>

#include "saved.h"

__global__ void count(uint32_t* v) { ++*v; }

static void one_step(cudaStream_t stream, uint32_t* value, uint32_t expected, bool waits, int line) {
  int current = -1;
  if (waits) CALL(cudaStreamSynchronize(stream));
  EXPECT(cudaSetDevice(1000) == cudaErrorInvalidDevice);
  EXPECT(cudaGetLastError() == cudaErrorInvalidDevice);
  CALL(cudaGetDevice(&current));
  if (current != 1) steplog_fail("line %d: the device is %d, was 1", line, current);
  count<<<1, 1, 0, stream>>>(value);
  LAUNCHED();
  CALL(cudaStreamSynchronize(stream));
  uint32_t got = 0;
  CALL(cudaMemcpy(&got, value, 4, cudaMemcpyDeviceToHost));
  EXPECT(got == expected);
  steplog_mix(got);
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  cudaStream_t streams[2];
  uint32_t* values[2];
  CALL(cudaSetDevice(1));
  for (int i = 0; i < 2; i++) {
    CALL(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    CALL(cudaMalloc(&values[i], 4));
    CALL(cudaMemset(values[i], 0, 4));
  }
  CALL(cudaDeviceSynchronize());
  DeviceNonce nonce;
  volatile long allowed = 0, done = 0;
  std::thread other([&] {
    CALL(cudaSetDevice(1));
    for (long step = 0; step < steplog_steps; step++) {
      while (allowed <= step) {
      }
      one_step(streams[1], values[1], static_cast<uint32_t>(step + 1), true, __LINE__);
      done = step + 1;
    }
  });
  while (steplog_done < steplog_steps) {
    one_step(streams[0], values[0], static_cast<uint32_t>(steplog_done + 1), false, __LINE__);
    allowed = steplog_done + 1;
    while (done <= steplog_done) {
    }
    steplog_step();
  }
  other.join();
  nonce.back();
  steplog_ok();
  return 0;
}
