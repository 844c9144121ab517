// Random bytes of the kernel's: for names that must not meet (jobs, sockets, tokens), and for addresses that
// nobody shall know. Anything with a C library; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cropdl {

// `bytes` (at most 256) random bytes, as hexadecimal digits.
std::string random_hex(size_t bytes);

// 0 <= result < below.
uint64_t random_number(uint64_t below);

}  // namespace cropdl
