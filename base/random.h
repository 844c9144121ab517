// Random bytes for names that must not meet: jobs, sockets, tokens. Anything with a C library; any thread.
#pragma once

#include <cstddef>
#include <string>

namespace cropdl {

// `bytes` (at most 256) random bytes of the kernel's, as hexadecimal digits.
std::string random_hex(size_t bytes);

}  // namespace cropdl
