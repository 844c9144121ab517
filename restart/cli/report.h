// The page of `cropdl report`, from the versions of a store: series and counts (report_series.cpp), plots as
// inline SVG (report_plot.cpp), one self-contained HTML file (report_page.cpp). Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "restart/store.h"

namespace cropdl::cli {

// --- Series and counts.

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
  double time = 0;       // of the first version after the restart
  uint64_t version = 0;  // number of that version
  uint64_t parent = 0;   // restarted from this version; 0: a new run from the start
};

struct Report {
  size_t complete = 0, damaged = 0;
  size_t unreadable = 0;       // damaged versions whose manifests cannot be read
  uint64_t bytes = 0;          // of all versions with readable manifests
  double stall_seconds = 0;    // of the same versions
  size_t restarts = 0;         // between the existing versions: a lower bound
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

// --- Plots over time. Their colours are classes in the page's style sheet.

enum class Unit { kSeconds, kBytes, kShare };

struct Curve {
  std::string name;     // for users, completes "1.2 s ..."; CropDL's own text: not escaped
  std::string style;    // CSS class
  bool filled = false;  // filled down to the axis
  Series points;
};

struct Plot {
  std::string title;  // for screen readers; CropDL's own text: not escaped
  std::string value;  // label of the vertical axis; the unit is added
  Unit unit = Unit::kSeconds;
  std::vector<Curve> curves;
  std::vector<RestartMark> marks;
  double first = 0, last = 0;  // of the horizontal axis, seconds since 1970
};

// Thins out curves and marks that have too many points.
std::string svg_of(const Plot& plot);

std::string value_text(double value, Unit unit);  // "1.25 s", "3.1 GB", "0.42 %"
std::string duration_text(double seconds);  // "850 ms", "12.3 s", "5 min 3 s", "2 h 13 min", "3 days 4 h"
std::string time_text(double time);         // "2026-11-22 04:36:23", UTC

// --- The page.

struct PageFacts {
  std::string store;    // path
  std::string written;  // utc_now()
  std::string running;  // where the job runs now; "": it does not run
};

// Returns `text`, cut after `most` bytes, as HTML, never markup: names in a store may be another user's.
std::string html_text(const std::string& text, size_t most = 300);

// `versions`: newest first; `report`: report_of() of them.
std::string page_of(const std::vector<restart::Version>& versions, const Report& report,
                    const PageFacts& facts);

}  // namespace cropdl::cli
