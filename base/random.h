// Random bytes from the kernel, for unique names and unpredictable addresses. Any thread with a C library.
#pragma once

#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/words.h"

namespace cropdl {

// At most 256 bytes: once the pool is initialised, getrandom(2) never cuts such a request short.
inline void fill_randomly(void* to, size_t bytes) {
  while (::getrandom(to, bytes, 0) != static_cast<ssize_t>(bytes)) {
  }
}

// Returns `bytes` (at most 256) random bytes as hexadecimal digits.
inline std::string random_hex(size_t bytes) {
  unsigned char random[256];
  fill_randomly(random, bytes);
  return hex_digits(random, bytes);
}

// 0 <= result < below.
inline uint64_t random_number(uint64_t below) {
  uint64_t random;
  fill_randomly(&random, sizeof random);
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * below) >> 64);
}

}  // namespace cropdl
