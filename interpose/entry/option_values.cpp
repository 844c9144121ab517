#include "interpose/entry/option_values.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "base/format.h"
#include "base/words.h"
#include "restart/retention.h"

namespace cropdl::entry {
namespace {

constexpr double kDay = 86400, kYear = 365.25 * kDay;          // seconds
constexpr double kShortest = 0.001, kLongest = 10 * kYear;     // between versions
constexpr double kLeastOverhead = 0.001, kMostOverhead = 100;  // percent
constexpr double kShortestMtbf = 1, kLongestMtbf = 1000 * kYear;

// "" or why the text is no value from `least` to `most`.
std::string why_not(const std::string& text, std::optional<double> value, double least, double most,
                    const char* kind, const char* bounds) {
  if (!value) return in_quotes(text) + " is not " + kind;
  return *value < least || *value > most ? in_quotes(text) + " is not between " + bounds : "";
}

}  // namespace

std::string in_quotes(const std::string& text) {
  return formatted("`{}{}`", text.substr(0, 40), text.size() > 40 ? "..." : "");
}

// A value that underflows a double is not taken as zero.
std::optional<double> number(std::string text, const std::string& unit) {
  if (!unit.empty() && text.ends_with(unit)) text.resize(text.size() - unit.size());
  char* end = nullptr;
  errno = 0;
  double value = strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != 0 || !std::isfinite(value)) return std::nullopt;
  if (value == 0 && errno == ERANGE) value = std::nextafter(0, 1);
  return value;
}

std::optional<double> duration(const std::string& text) {
  constexpr struct {
    const char* unit;
    double seconds;
  } kUnits[] = {{"s", 1}, {"m", 60}, {"h", 3600}, {"d", kDay}};
  for (const auto& [unit, seconds] : kUnits)
    if (text.ends_with(unit)) {
      const auto value = number(text, unit);
      return value ? std::optional(*value * seconds) : std::nullopt;
    }
  return number(text, "");
}

std::optional<double> moment(const std::string& text) {
  return text.starts_with("@") ? number(text.substr(1), "") : std::nullopt;
}

std::string not_an_interval(const std::string& text) {
  const auto value = number(text, "");
  if (text == "auto" || value == 0.0) return "";
  return why_not(text, value, kShortest, kLongest, "a number of seconds", "0.001 seconds and ten years");
}

std::string not_a_percentage(const std::string& text) {
  return why_not(text, number(text, "%"), kLeastOverhead, kMostOverhead, "a number of percent",
                 "0.001 and 100 percent");
}

std::string not_a_duration(const std::string& text) {
  const auto value = duration(text);
  if (value == 0.0) return "";
  return why_not(text, value, kShortestMtbf, kLongestMtbf,
                 "a duration, such as 43200 (seconds), 30m, 12h or 3d", "a second and a thousand years");
}

std::string not_a_time_limit(const std::string& text) { return moment(text) ? "" : not_a_duration(text); }

std::string not_a_version(const std::string& text) {
  return is_positive_number(text, 18) ? "" : in_quotes(text) + " is not a version's number";
}

std::string not_a_device_count(const std::string& text) {
  constexpr int kMost = 16;  // gpu_state/software/settings
  if (text == "true" || (is_positive_number(text, 2) && atoi(text.c_str()) <= kMost)) return "";
  return in_quotes(text) + " is not a number of devices from 1 to 16";
}

std::string not_a_retention(const std::string& text) {
  if (restart::parse_retention(text)) return "";
  return in_quotes(text) + restart::kIsNoRetention;
}

}  // namespace cropdl::entry
