// The series and counts of `cropdl report`, from the versions of a store. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "restart/store.h"

namespace cropdl::cli {

// Manifests record times in whole seconds. A span of at least this many seconds is known to 10 %.
inline constexpr int64_t kMeasuredSpan = 10;

struct Point {
  double time = 0;  // seconds since 1970
  double value = 0;
  double low = 0, high = 0;  // bounds of the value; equal to it if it is exact
  uint64_t version = 0;
  bool damaged = false;
  bool begins = false;  // no line from the previous point: the job was restarted in between
};
using Series = std::vector<Point>;

struct RestartMark {
  double time = 0;       // time of the first version after the restart
  uint64_t version = 0;  // number of that version
  uint64_t parent = 0;   // restarted from this version; 0: a new run from the start
};

struct Report {
  size_t complete = 0, damaged = 0;
  size_t unreadable = 0;       // damaged versions whose manifests cannot be read
  uint64_t bytes = 0;          // of all versions with readable manifests
  double stall_seconds = 0;    // of the same versions
  size_t restarts = 0;         // restarts between the existing versions: a lower bound
  bool dated = false;          // some version has a time; otherwise all below is empty
  double first = 0, last = 0;  // times of the earliest and the latest version, seconds since 1970
  // Sums over consecutive versions of a run: the time between them, and their stalls.
  double observed_seconds = 0, observed_stall_seconds = 0;
  size_t pruned_gaps = 0;  // places where versions are missing; their stalls are not known

  Series iteration_seconds;              // time per iteration
  Series stalls;                         // seconds
  Series memory, stored, device_memory;  // bytes
  Series stall_share;                    // fraction of the time observed so far
  std::vector<RestartMark> marks;
};

// Whether the version has a readable manifest, from which points can be plotted; a damaged one may have none.
inline bool readable(const restart::Version& version) { return !version.manifest.images.empty(); }

// `versions` in any order.
Report report_of(const std::vector<restart::Version>& versions);

// Returns about `limit` points at most: of each group of neighbours the first, the last, the lowest and the
// highest, so that no peak is lost. Begins of lines are kept.
Series thinned(const Series& series, size_t limit);

}  // namespace cropdl::cli
