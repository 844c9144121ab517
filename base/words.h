// Texts for human readers, and numbers and bytes as text. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cropdl {

std::string amount(uint64_t bytes);                     // "1.5 GB": decimal units, as for disks
std::string in_words(double seconds);                   // "0.34 s", "25 s", "40 min", "3.5 h", "4 days"
std::string counted(uint64_t count, const char* what);  // "1 image", "2 images"
// Separated by blanks.
std::string command_line(const std::string& program, const std::vector<std::string>& arguments);

// Whether the text is one to `most` decimal digits, and nothing else; the second: and not 0.
inline bool is_number(const std::string& text, size_t most) {
  return !text.empty() && text.size() <= most && text.find_first_not_of("0123456789") == std::string::npos;
}
inline bool is_positive_number(const std::string& text, size_t most) {
  return is_number(text, most) && text.find_first_not_of('0') != std::string::npos;
}

// Bytes as hexadecimal digits, for JSON, which can hold only text.
std::string hex_digits(const void* bytes, size_t count);
std::optional<std::string> bytes_of_hex(const std::string& digits);  // empty: no pairs of lower-case digits

}  // namespace cropdl
