#include "base/random.h"

#include <sys/random.h>

#include "base/words.h"

namespace cropdl {
namespace {

void fill(void* to, size_t bytes) {
  // getrandom(2): once the pool is initialised, requests up to 256 bytes are never cut short.
  while (::getrandom(to, bytes, 0) != static_cast<ssize_t>(bytes)) {
  }
}

}  // namespace

std::string random_hex(size_t bytes) {
  unsigned char random[256];
  fill(random, bytes);
  return hex_digits(random, bytes);
}

uint64_t random_number(uint64_t below) {
  uint64_t random;
  fill(&random, sizeof random);
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * below) >> 64);
}

}  // namespace cropdl
