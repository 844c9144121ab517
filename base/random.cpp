#include "base/random.h"

#include <sys/random.h>

#include "base/hex.h"

namespace cropdl {

std::string random_hex(size_t bytes) {
  unsigned char random[256];
  // getrandom(2): up to 256 bytes are never cut short once the pool is initialised.
  while (::getrandom(random, bytes, 0) != static_cast<ssize_t>(bytes)) {
  }
  return hex_digits(random, bytes);
}

}  // namespace cropdl
