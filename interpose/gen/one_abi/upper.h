// What the generated upper half of a library with one ABI is made of: a call through the gate. UH, any
// thread, UH FS base; of libc: write.
#pragma once

#include <unistd.h>

#include <cstring>

#include "interpose/seam/gate.h"

namespace cropdl::one_abi {

// The field that points at the library's table in the lower half of this run: the runtime's part.
void* const* const volatile* lower_table();

template <class R, class... A>
inline R call_library(unsigned function, A... arguments) {
  return seam::call_lower<R>(lower_table(), function, arguments...);
}

// A function that is not offered: said once, and the library's error, or a result of zeros, returned.
inline void say_refused(bool* said, const char* name, const char* why) {
  if (__atomic_exchange_n(said, true, __ATOMIC_RELAXED)) return;
  const char* parts[] = {"cropdl: ", name, " is not offered: ", why, "\n"};
  char line[512];
  size_t n = 0;
  for (const char* part : parts) {
    for (; *part && n < sizeof line; ++part) line[n++] = *part;
  }
  if (write(2, line, n) < 0) return;
}

}  // namespace cropdl::one_abi
