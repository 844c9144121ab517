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

constexpr char kDigits[] = "0123456789abcdef";

std::string hex_digits(const void* bytes, size_t count) {
  std::string text;
  text.reserve(2 * count);
  const auto* byte = static_cast<const unsigned char*>(bytes);
  for (size_t i = 0; i < count; ++i) text += kDigits[byte[i] >> 4], text += kDigits[byte[i] & 15];
  return text;
}

std::optional<std::string> bytes_of_hex(const std::string& digits) {
  if (digits.size() % 2 != 0 || digits.find_first_not_of(kDigits) != std::string::npos) return std::nullopt;
  const auto value = [&](size_t i) { return digits[i] <= '9' ? digits[i] - '0' : digits[i] - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) bytes += static_cast<char>(value(i) << 4 | value(i + 1));
  return bytes;
}

}  // namespace cropdl
