// A plot over time as inline SVG, for `cropdl report`. Its colours are classes in the page's style sheet
// (report_page.cpp). Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "restart/cli/report_series.h"

namespace cropdl::cli {

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

// Draws the plot. Thins out curves and marks that have too many points.
std::string svg_of(const Plot& plot);

// "1.25 s", "3.1 GB", "0.42 %".
std::string value_text(double value, Unit unit);
// "850 ms", "12.3 s", "5 min 3 s", "2 h 13 min", "3 days 4 h".
std::string duration_text(double seconds);
// "2026-11-22 04:36:23", UTC.
std::string time_text(double time);

}  // namespace cropdl::cli
