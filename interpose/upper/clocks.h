// The kernel's clocks and what is added to them in a process that continues an image. UH.
#pragma once

#include <asm/unistd.h>

#include "interpose/seam/layout.h"
#include "interpose/upper/raw.h"

namespace cropdl::upper {

struct Time {  // struct timespec
  int64_t seconds, nanoseconds;
};

// include/uapi/linux/time.h
inline constexpr long kMonotonicClock = 1, kProcessClock = 2, kThreadClock = 3, kRawClock = 4,
                      kCoarseClock = 6, kBootClock = 7, kBootAlarmClock = 9;

inline constexpr int64_t kSecond = 1000000000;

__attribute__((always_inline)) inline void add(Time* time, int64_t nanoseconds) {
  const int64_t sum = time->nanoseconds + nanoseconds % kSecond;
  time->seconds += nanoseconds / kSecond + (sum >= kSecond ? 1 : sum < 0 ? -1 : 0);
  time->nanoseconds = sum >= kSecond ? sum - kSecond : sum < 0 ? sum + kSecond : sum;
}

// Of the clocks that count time, not work; the wall clock is the machine's.
__attribute__((always_inline)) inline int64_t wall_offset(const seam::ClockOffsets& o, long clock) {
  if (clock == kMonotonicClock || clock == kCoarseClock) return o.monotonic;
  if (clock == kRawClock) return o.raw;
  if (clock == kBootClock || clock == kBootAlarmClock) return o.boottime;
  return 0;
}

int64_t now();  // CLOCK_MONOTONIC as the program has it, ns

}  // namespace cropdl::upper
