#include "base/time.h"

#include <cmath>
#include <ctime>

namespace cropdl {

std::string utc_now() {
  const time_t now = ::time(nullptr);
  tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts));
}

int64_t clock_ns(int clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

double unix_time() { return static_cast<double>(clock_ns(CLOCK_REALTIME)) * 1e-9; }
int64_t monotonic_us() { return clock_ns(CLOCK_MONOTONIC) / 1000; }
double thread_seconds() { return static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID)) * 1e-9; }

int64_t in_us(double seconds) {
  constexpr double kFar = 1e12;
  return static_cast<int64_t>(std::ceil((seconds < kFar ? seconds : kFar) * 1e6));
}

}  // namespace cropdl
