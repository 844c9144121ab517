// Shared by the programs that time device calls: prints `NAME NANOSECONDS`, the median over batches of the
// mean time of a call. Outside of the measured time it waits for the device before a batch, and calls
// `before` and `after`.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

inline void check(int error, const char* what) {
  if (error == 0) return;
  std::fprintf(stderr, "%s: error %d\n", what, error);
  std::exit(1);
}
#define CHECK(call) check(static_cast<int>(call), #call)

inline double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec);
}

inline void nothing() {}

template <class F, class Before = void (*)(), class After = void (*)()>
void time_calls(const char* name, int calls, F call, Before before = nothing, After after = nothing) {
  constexpr int kBatches = 15;
  std::vector<double> times;
  for (int batch = -1; batch < kBatches; batch++) {  // -1: warm-up
    CHECK(cudaDeviceSynchronize());
    before();
    const double begin = now();
    for (int i = 0; i < calls; i++) call();
    if (batch >= 0) times.push_back((now() - begin) / calls);
    after();
  }
  CHECK(cudaDeviceSynchronize());
  std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
  std::printf("%s %.1f\n", name, times[kBatches / 2]);
}
