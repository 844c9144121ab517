#include "base/hex.h"

namespace cropdl {

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
