// The kernel's clocks, and the offsets added to them in a process that continues an image. UH.
#pragma once

#include <asm/unistd.h>

#include "interpose/seam/layout.h"
#include "interpose/upper/raw.h"

namespace cropdl::upper {

struct TimeSpec {  // struct timespec
  int64_t seconds, nanoseconds;
};

// include/uapi/linux/time.h
inline constexpr long kMonotonicClock = 1, kProcessClock = 2, kThreadClock = 3, kRawClock = 4,
                      kCoarseClock = 6, kBootClock = 7, kBootAlarmClock = 9;

inline constexpr int64_t kSecond = 1000000000;

// Whether the kernel accepts the time (timespec64_valid, include/linux/time64.h).
inline bool is_valid(const TimeSpec& t) {
  return t.seconds >= 0 && t.nanoseconds >= 0 && t.nanoseconds < kSecond;
}
// A valid time in ns. A time more than 292 years away becomes kNever.
inline int64_t nanoseconds(const TimeSpec& t) {
  constexpr int64_t kNever = INT64_MAX;
  return t.seconds >= kNever / kSecond ? kNever : t.seconds * kSecond + t.nanoseconds;
}

__attribute__((always_inline)) inline void add_nanoseconds(TimeSpec* time, int64_t nanoseconds) {
  const int64_t sum = time->nanoseconds + nanoseconds % kSecond;
  time->seconds += nanoseconds / kSecond + (sum >= kSecond ? 1 : sum < 0 ? -1 : 0);
  time->nanoseconds = sum >= kSecond ? sum - kSecond : sum < 0 ? sum + kSecond : sum;
}

// Returns the offset of a clock of elapsed time, not CPU time. The wall clock has none.
__attribute__((always_inline)) inline int64_t wall_offset(const seam::ClockOffsets& o, long clock) {
  if (clock == kMonotonicClock || clock == kCoarseClock) return o.monotonic;
  if (clock == kRawClock) return o.raw;
  if (clock == kBootClock || clock == kBootAlarmClock) return o.boottime;
  return 0;
}

int64_t program_monotonic_now();  // CLOCK_MONOTONIC as the program sees it, ns

}  // namespace cropdl::upper
