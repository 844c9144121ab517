// Random bytes from the kernel, for unique names and unpredictable addresses. Any thread with a C library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cropdl {

// Returns `bytes` (at most 256) random bytes as hexadecimal digits.
std::string random_hex(size_t bytes);

// 0 <= result < below.
uint64_t random_number(uint64_t below);

}  // namespace cropdl
