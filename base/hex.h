// Bytes as hexadecimal digits, for JSON, which can hold only text. Any code.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace cropdl {

std::string hex_digits(const void* bytes, size_t count);

// Returns the bytes; empty if `digits` are not pairs of lower-case digits.
std::optional<std::string> bytes_of_hex(const std::string& digits);

}  // namespace cropdl
