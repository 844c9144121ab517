// What `cropdl report` plots and counts, from the versions of a store. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "restart/store.h"

namespace cropdl::cli {

// Manifests have their time in whole seconds. A span of at least so many seconds is known to 10 %.
inline constexpr int64_t kMeasuredSpan = 10;

struct Point {
  double time = 0;  // seconds since 1970
  double value = 0;
  double low = 0, high = 0;  // between which the value lies; equal to it where it is exact
  uint64_t version = 0;
  bool damaged = false;
  bool begins = false;  // no line leads here from the point before: the job was restarted in between
};
using Series = std::vector<Point>;

struct RestartMark {
  double time = 0;       // of the first version after it
  uint64_t version = 0;  // that one
  uint64_t parent = 0;   // restarted from this one; 0: another run that began anew
};

struct Report {
  size_t complete = 0, damaged = 0;
  size_t unreadable = 0;       // of the damaged ones: their manifests cannot be read
  uint64_t bytes = 0;          // of all versions whose manifests can be read
  double stall_seconds = 0;    // of the same versions
  size_t restarts = 0;         // how many there were among the versions that are there, at least
  bool dated = false;          // there is a version with a time; else all below is empty
  double first = 0, last = 0;  // of the earliest and the latest version, seconds since 1970
  // Consecutive versions of a run: the time between them, and the stalls in it.
  double observed_seconds = 0, observed_stall_seconds = 0;
  size_t pruned_gaps = 0;  // places at which versions are missing, whose stalls are not known

  Series iteration_seconds;              // time per iteration
  Series stalls;                         // seconds
  Series memory, stored, device_memory;  // bytes
  Series stall_share;                    // a fraction of the time observed so far
  std::vector<RestartMark> marks;
};

// The version has a manifest, from which points can be plotted; a damaged one may have none.
inline bool readable(const restart::Version& version) { return !version.manifest.images.empty(); }

// `versions` in any order.
Report report_of(const std::vector<restart::Version>& versions);

// At most about `limit` points: of each group of neighbours the first, the last, the lowest and the highest
// stay, so that no peak is lost. What begins a line still does.
Series thinned(const Series& series, size_t limit);

}  // namespace cropdl::cli
