// When to request the last version of a job with a time limit (of a batch system). Pure: no I/O, no clock.
// Times in seconds; moments from any fixed origin. Rank 0's agent thread.
#pragma once

#include <algorithm>

namespace cropdl::coord {

// Exit status of a job that ends after its last version: EX_TEMPFAIL of sysexits.h, "try again later".
inline constexpr int kTryAgainLater = 75;

// Allowance for unmeasured costs: late ranks, a slower file system, removal of old versions, the launcher. A
// hundredth of the run, because long runs on many nodes have more of these; 1 s to 60 s.
inline double last_version_margin(double run) { return std::clamp(run * 0.01, 1.0, 60.0); }

// The last version itself waits for no end of an iteration, but a version in progress may, which becomes the
// last one then: until its attempt and the pause after it are over (CutLimits). However long an iteration is.
inline constexpr double kLongestWait = 11;

// How long before the end of a run of that length to request it: twice the predicted `cost` and a margin,
// even if a version in progress first runs to the end of an iteration. `iteration`: its length, 0: unknown.
inline double time_for_last_version(double run, double cost, double iteration) {
  return 2 * cost + std::min(iteration, kLongestWait) + last_version_margin(run);
}
inline double last_version_at(double start, double limit, double cost, double iteration) {
  return limit - time_for_last_version(limit - start, cost, iteration);
}

}  // namespace cropdl::coord
