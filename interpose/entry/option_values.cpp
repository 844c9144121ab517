#include "interpose/entry/option_values.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "base/digits.h"
#include "base/format.h"
#include "restart/retention.h"

namespace cropdl::entry {
namespace {

constexpr double kDay = 86400, kYear = 365.25 * kDay;          // seconds
constexpr double kShortest = 0.001, kLongest = 10 * kYear;     // between versions
constexpr double kLeastOverhead = 0.001, kMostOverhead = 100;  // percent
constexpr double kShortestMtbf = 1, kLongestMtbf = 1000 * kYear;

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

CLI::Validator interval_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (text == "auto") return "";
        const auto value = number(text, "");
        if (!value) return in_quotes(text) + " is not a number of seconds";
        if (*value != 0 && (*value < kShortest || *value > kLongest))
          return in_quotes(text) + " is not between 0.001 seconds and ten years";
        return "";
      },
      "");
}

CLI::Validator percent_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const auto value = number(text, "%");
        if (!value) return in_quotes(text) + " is not a number of percent";
        if (*value < kLeastOverhead || *value > kMostOverhead)
          return in_quotes(text) + " is not between 0.001 and 100 percent";
        return "";
      },
      "");
}

CLI::Validator duration_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const auto value = duration(text);
        if (!value) return in_quotes(text) + " is not a duration, such as 43200 (seconds), 30m, 12h or 3d";
        if (*value != 0 && (*value < kShortestMtbf || *value > kLongestMtbf))
          return in_quotes(text) + " is not between a second and a thousand years";
        return "";
      },
      "");
}

CLI::Validator version_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        return is_positive_number(text, 18) ? "" : in_quotes(text) + " is not a version's number";
      },
      "");
}

CLI::Validator device_count_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        constexpr int kMost = 16;  // gpu_state/software/settings
        if (text != "true" && (!is_positive_number(text, 2) || atoi(text.c_str()) > kMost))
          return in_quotes(text) + " is not a number of devices from 1 to 16";
        return "";
      },
      "");
}

CLI::Validator keep_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (restart::parse_retention(text)) return "";
        return in_quotes(text) + " says no number of versions, such as 3 or 3,24h,7d";
      },
      "");
}

}  // namespace cropdl::entry
