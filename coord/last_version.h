// When the job's last version is asked for, if others end the job at a known moment (a batch system's time
// limit). Pure: no I/O, no clock. Times are in seconds, moments count from any fixed one. Rank 0's agent
// thread.
#pragma once

namespace cropdl::coord {

// The exit status of a job that ends behind its last version: EX_TEMPFAIL of sysexits.h, "try again later".
inline constexpr int kTryAgainLater = 75;

// What is not measured of a version and of the end behind it: ranks that come late, a file system that is
// slower than before, old versions that are removed, the launcher. A hundredth of the run, since a
// run of hours on many nodes has more of all that; at least a second, at most a minute.
double last_version_margin(double run);

// The moment: a version that costs twice as much as predicted (`cost`) is published a margin before `limit`.
// `iteration`: how long an iteration of the program takes, 0: not known. Room for a version that is under way
// by then, whose ranks run to its end first.
double last_version_at(double start, double limit, double cost, double iteration);

}  // namespace cropdl::coord
