// The time of day as manifests and job files have it, and time that only runs forward. Anything with a C
// library (lower half: LH FS base); any thread.
#pragma once

#include <cstdint>
#include <string>

namespace cropdl {

std::string utc_now();  // ISO 8601, whole seconds: "2026-11-22T04:36:23Z"

double unix_time();  // CLOCK_REALTIME, seconds since 1970

int64_t clock_ns(int clock);  // CLOCK_MONOTONIC, … (clock_gettime(2)), nanoseconds
int64_t monotonic_us();       // CLOCK_MONOTONIC, microseconds

// Processor time of the calling thread, seconds: CLOCK_THREAD_CPUTIME_ID, a system call.
double thread_seconds();

inline double in_seconds(int64_t us) { return static_cast<double>(us) * 1e-6; }
int64_t in_us(double seconds);  // rounded up; 1e18 at most

}  // namespace cropdl
