#include "base/words.h"

#include "base/format.h"

namespace cropdl {

std::string amount(uint64_t bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 999.95 && unit < 6; ++unit) value /= 1000;
  return unit == 0 ? formatted("{:.0f} {}", value, units[unit]) : formatted("{:.1f} {}", value, units[unit]);
}

std::string in_words(double seconds) {
  if (seconds < 10) return formatted("{:.2g} s", seconds);
  if (seconds < 120) return formatted("{:.0f} s", seconds);
  if (seconds < 7200) return formatted("{:.0f} min", seconds / 60);
  if (seconds < 172'800) return formatted("{:.3g} h", seconds / 3600);
  return formatted("{:.3g} days", seconds / 86'400);
}

std::string counted(uint64_t count, const char* what) {
  return formatted("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string command_line(const std::string& program, const std::vector<std::string>& arguments) {
  std::string text = program;
  for (const std::string& one : arguments) text += " " + one;
  return text;
}

}  // namespace cropdl
