// Bytes as hexadecimal digits, for JSON, which holds text only. Anything.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace cropdl {

std::string hex_digits(const void* bytes, size_t count);

// The bytes; none if these are not pairs of lower-case digits.
std::optional<std::string> bytes_of_hex(const std::string& digits);

}  // namespace cropdl
