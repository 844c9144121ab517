// The plots of report.h.
#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/format.h"
#include "base/words.h"
#include "restart/cli/report.h"

namespace cropdl::cli {
namespace {

// In units of the drawing, which the page scales.
constexpr double kWidth = 600, kHeight = 250;
constexpr double kLeft = 52, kRight = kWidth - 12, kTop = 30, kBottom = kHeight - 42;

constexpr size_t kMostPoints = 240;  // per curve: more cannot be distinguished
constexpr size_t kMostMarks = 60;
constexpr size_t kFewPoints = 80;  // up to this many are drawn as dots; above it only lines show

constexpr double kMinute = 60, kHour = 3600, kDay = 86400;

// Formats a time (UTC) as strftime(3) does, in English: cropdl sets no locale.
std::string utc_text(const char* format, double time) {
  std::tm parts{};
  const auto seconds = static_cast<time_t>(time);
  ::gmtime_r(&seconds, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

// Returns 1, 2 or 5 times a power of ten, at least `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double times : {1.0, 2.0, 5.0})
    if (times * power >= least * (1 - 1e-9)) return times * power;
  return 10 * power;
}

struct Scale {
  double from = 0, to = 1;
  double begin = 0, end = 1;  // units of the drawing
  double at(double value) const { return begin + (value - from) / (to - from) * (end - begin); }
};

// --- The vertical axis.

struct Prefix {
  const char* name;
  double factor;
};

// Returns the prefix for the labels of an axis up to `most`.
Prefix prefix_of(double most, Unit unit) {
  if (unit == Unit::kShare) return {"%", 0.01};
  if (unit == Unit::kBytes) {
    constexpr const char* kNames[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    size_t i = 0;
    double factor = 1;
    for (; i < 6 && most >= factor * 1000; ++i) factor *= 1000;
    return {kNames[i], factor};
  }
  if (most < 1e-3) return {"\u00b5s", 1e-6};
  if (most < 1) return {"ms", 1e-3};
  if (most < 2 * kMinute) return {"s", 1};
  if (most < 2 * kHour) return {"min", kMinute};
  return {"h", kHour};
}

std::string vertical_axis(const Plot& plot, double most, Scale* scale) {
  constexpr int kMostSteps = 5;
  const Prefix prefix = prefix_of(most, plot.unit);
  const double step = round_step(std::max(most / prefix.factor, 1e-9) / kMostSteps);
  const int steps = std::max(1, static_cast<int>(std::ceil(most / prefix.factor / step - 1e-9)));
  scale->from = 0;
  scale->to = steps * step * prefix.factor;
  std::string svg;
  for (int i = 0; i <= steps; ++i) {
    const double y = scale->at(i * step * prefix.factor);
    svg += formatted("<path class=\"{}\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", i == 0 ? "axis" : "grid", kLeft, y,
                     kRight);
    svg += formatted("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>",
                     kLeft - 7, y + 4, i * step);
  }
  return svg + formatted("<text class=\"label\" x=\"2\" y=\"14\">{} ({})</text>", plot.value, prefix.name);
}

// --- The horizontal axis.

double time_step(double span) {
  constexpr double kMostSteps = 6;
  for (const double step :
       {1.0, 2.0, 5.0, 10.0, 15.0, 30.0, kMinute, 2 * kMinute, 5 * kMinute, 10 * kMinute, 15 * kMinute,
        30 * kMinute, kHour, 2 * kHour, 3 * kHour, 6 * kHour, 12 * kHour, kDay, 2 * kDay})
    if (span / step <= kMostSteps) return step;
  return round_step(span / kMostSteps / kDay) * kDay;
}

std::string tick_text(double time, double step) {
  if (step > 300 * kDay) return utc_text("%Y", time);
  const std::string of_day = utc_text("%T", time);
  if (step >= kDay || of_day == "00:00:00") return utc_text("%-d %b", time);
  return step < kMinute ? of_day : utc_text("%R", time);
}

std::string horizontal_axis(const Scale& scale) {
  const double step = time_step(scale.to - scale.from);
  std::string svg;
  for (double time = std::ceil(scale.from / step) * step; time <= scale.to; time += step) {
    const double x = scale.at(time);
    svg += formatted("<path class=\"axis\" d=\"M{:.1f} {:.1f}v4\"/>", x, kBottom);
    svg += formatted("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", x,
                     kBottom + 17, tick_text(time, step));
  }
  std::string days = utc_text("%-d %b %Y", scale.to);
  if (utc_text("%Y", scale.from) != utc_text("%Y", scale.to))
    days = utc_text("%-d %b %Y to ", scale.from) + days;
  else if (utc_text("%j", scale.from) != utc_text("%j", scale.to))
    days = utc_text("%-d %b to ", scale.from) + days;
  return svg + formatted(
                   "<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">time (UTC), "
                   "{}</text>",
                   (kLeft + kRight) / 2, kHeight - 6, days);
}

// --- Curves and marks.

struct Axes {
  Scale across, up;
  Unit unit;  // of `up`
};

struct Place {
  double x, y, low, high;
};

Place place_of(const Point& p, const Axes& axes) {
  const Scale& up = axes.up;
  return {axes.across.at(p.time), up.at(p.value), up.at(std::max(0.0, p.low)),
          up.at(std::min(p.high, up.to))};
}

std::string path_of(const std::vector<Place>& places, double Place::*y, const char* first = "M") {
  std::string text;
  for (const Place& p : places) text += formatted("{}{:.1f} {:.1f}", text.empty() ? first : "L", p.x, p.*y);
  return text;
}

// Returns the area below the curve, or the band of its bounds.
std::string shape_of(const std::vector<Place>& places, const Curve& curve) {
  if (curve.filled)
    return formatted("<path class=\"area\" d=\"{}L{:.1f} {:.1f}L{:.1f} {:.1f}Z\"/>",
                     path_of(places, &Place::y), places.back().x, kBottom, places.front().x, kBottom);
  if (std::ranges::all_of(places, [](const Place& p) { return p.high == p.low; })) return "";  // exact
  const std::vector<Place> back(places.rbegin(), places.rend());
  return formatted("<path class=\"band\" d=\"{}{}Z\"/>", path_of(places, &Place::high),
                   path_of(back, &Place::low, "L"));
}

std::string dot_of(const Point& point, const Axes& axes, const Curve& curve, bool is_seen) {
  const Place at = place_of(point, axes);
  std::string text = formatted("version {}, {}: {} {}", point.version, time_text(point.time),
                               value_text(point.value, axes.unit), curve.name);
  if (point.low != point.high)
    text += formatted(" ({} to {})", value_text(std::max(0.0, point.low), axes.unit),
                      value_text(point.high, axes.unit));
  if (point.damaged) text += "; damaged";
  const char* const style = point.damaged ? " class=\"bad\"" : is_seen ? "" : " class=\"quiet\"";
  return formatted("<circle{} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}</title></circle>", style, at.x,
                   at.y, is_seen || point.damaged ? 3 : 2, text);
}

std::string drawn(const Curve& curve, const Axes& axes) {
  const Series points = thinned(curve.points, kMostPoints);
  std::string line, shapes;
  for (size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    for (end = begin + 1; end < points.size() && !points[end].begins;) ++end;
    std::vector<Place> places;
    for (size_t i = begin; i < end; ++i) places.push_back(place_of(points[i], axes));
    shapes += shape_of(places, curve);
    if (places.size() > 1) line += path_of(places, &Place::y);
  }
  std::string svg = formatted("<g class=\"{}\">{}<path class=\"line\" d=\"{}\"/>", curve.style, shapes, line);
  const bool few = points.size() <= kFewPoints;
  for (size_t i = 0; i < points.size(); ++i) {
    // A point that no line leads to or from is drawn even if only lines show.
    const bool alone = points[i].begins && (i + 1 == points.size() || points[i + 1].begins);
    svg += dot_of(points[i], axes, curve, few || alone);
  }
  return svg + "</g>";
}

std::string drawn(const RestartMark& mark, const Axes& axes) {
  const std::string what =
      mark.parent != 0 ? formatted("restarted from version {}, before version {}", mark.parent, mark.version)
                       : formatted("begun anew before version {}", mark.version);
  return formatted(
      "<g class=\"mark\"><path d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/>"
      "<path class=\"flag\" d=\"M{0:.1f} {3:.1f}l-5 -8h10z\"/><title>{4}</title></g>",
      axes.across.at(mark.time), kTop, kBottom, kTop + 2, what);
}

std::string trimmed_number(double value) {
  return value >= 100 ? formatted("{:.0f}", value) : formatted("{:.3g}", value);
}

}  // namespace

std::string value_text(double value, Unit unit) {
  if (unit == Unit::kBytes) return amount(static_cast<uint64_t>(std::clamp(value, 0.0, 1.8e19)));
  if (unit == Unit::kShare) return trimmed_number(value * 100) + " %";
  if (value >= 2 * kMinute) return duration_text(value);
  const Prefix prefix = prefix_of(value, unit);
  return formatted("{} {}", trimmed_number(value / prefix.factor), prefix.name);
}

std::string duration_text(double seconds) {
  if (seconds < 1e-9) return "0 s";
  if (seconds < 2 * kMinute) return value_text(seconds, Unit::kSeconds);
  const int64_t whole = std::llround(std::min(seconds, 1e15));
  const auto two = [](int64_t big, const char* big_name, int64_t small, const char* small_name) {
    return small == 0 ? formatted("{} {}", big, big_name)
                      : formatted("{} {} {} {}", big, big_name, small, small_name);
  };
  if (whole < 7200) return two(whole / 60, "min", whole % 60, "s");
  if (whole < int64_t{2} * 86400) return two(whole / 3600, "h", whole % 3600 / 60, "min");
  return two(whole / 86400, "days", whole % 86400 / 3600, "h");
}

std::string time_text(double time) { return utc_text("%F %T", time); }

std::string svg_of(const Plot& plot) {
  double most = 0;
  for (const Curve& curve : plot.curves)
    for (const Point& point : curve.points) most = std::max({most, point.value, point.high});
  if (!(most > 0)) most = plot.unit == Unit::kShare ? 0.01 : 1;
  Scale across{plot.first, plot.last, kLeft + 6, kRight - 6};
  if (across.to - across.from < 4) {  // one version, or several within moments
    across.from -= 30;
    across.to += 30;
  }
  Scale up{0, 1, kBottom, kTop + 10};
  std::string svg = formatted("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">", kWidth,
                              kHeight, plot.title);
  svg += vertical_axis(plot, most, &up);
  svg += horizontal_axis(across);
  const Axes axes{across, up, plot.unit};
  const size_t marks = plot.marks.size();
  for (size_t i = 0; i < std::min(marks, kMostMarks); ++i)
    svg += drawn(plot.marks[marks <= kMostMarks ? i : i * marks / kMostMarks], axes);
  for (const Curve& curve : plot.curves)
    if (!curve.points.empty()) svg += drawn(curve, axes);
  return svg + "</svg>";
}

}  // namespace cropdl::cli
