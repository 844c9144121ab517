// Elapsed times are of the device, in order and additive; events without timing, or not yet recorded, have
// none.
#include "check.h"

#include <chrono>

__global__ void sleep(unsigned milliseconds) {
  for (unsigned i = 0; i < 2 * milliseconds; i++) __nanosleep(500000);
}

int main() {
  cudaEvent_t first, middle, last, untimed, never;
  for (cudaEvent_t* event : {&first, &middle, &last, &never}) CALL(cudaEventCreate(event));
  CALL(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  auto begin = std::chrono::steady_clock::now();
  CALL(cudaEventRecord(first));
  CALL(cudaEventRecord(middle));
  sleep<<<1, 1>>>(40);
  LAUNCHED();
  CALL(cudaEventRecord(last));
  CALL(cudaEventRecord(untimed));
  float early, whole, late;
  cudaError_t not_ready = cudaEventElapsedTime(&whole, first, last);
  EXPECT(not_ready == cudaErrorNotReady);
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
  return finish();
}
