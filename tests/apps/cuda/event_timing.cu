// Elapsed times are measured on the device, ordered and additive; events without timing or not recorded yet
// have none.
// run: also=shared,per-thread
#include "check.h"

#include <chrono>

__global__ void wait_until(volatile int* open) {
  while (!*open) __nanosleep(100000);
}

int main() {
  cudaEvent_t first, middle, last, untimed, never;
  for (cudaEvent_t* event : {&first, &middle, &last, &never}) CALL(cudaEventCreate(event));
  CALL(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  int* open;
  CALL(cudaMallocHost(&open, sizeof *open));
  *open = 0;
  auto begin = std::chrono::steady_clock::now();
  CALL(cudaEventRecord(first));
  CALL(cudaEventRecord(middle));
  wait_until<<<1, 1>>>(open);
  LAUNCHED();
  CALL(cudaEventRecord(last));
  CALL(cudaEventRecord(untimed));
  float early, whole, late;
  cudaError_t not_ready = cudaEventElapsedTime(&whole, first, last);
  EXPECT(not_ready == cudaErrorNotReady);
  *static_cast<volatile int*>(open) = 1;
  CALL(cudaEventSynchronize(last));
  std::chrono::duration<float, std::milli> wall = std::chrono::steady_clock::now() - begin;
  CALL(cudaEventElapsedTime(&early, first, middle));
  CALL(cudaEventElapsedTime(&late, middle, last));
  CALL(cudaEventElapsedTime(&whole, first, last));
  EXPECT(early >= 0 && late > 0 && whole <= wall.count() + 1);
  EXPECT(std::fabs(early + late - whole) < 0.01f);
  FAILS(cudaEventElapsedTime(&whole, first, untimed), cudaErrorInvalidResourceHandle);
  FAILS(cudaEventElapsedTime(&whole, first, never), cudaErrorInvalidResourceHandle);
  for (cudaEvent_t event : {first, middle, last, untimed, never}) CALL(cudaEventDestroy(event));
  CALL(cudaFreeHost(open));
  return finish();
}
