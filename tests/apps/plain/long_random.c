// Requests so many random bytes that a signal would cut the call short. The program has no handlers, so it
// relies on getting all of them.
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

#include "steplog.h"

int main(int argc, char** argv) {
  enum { kBytes = 4 << 20, kPiece = 4096 };
  static const unsigned char none[kPiece];
  static unsigned char bytes[kBytes];
  steplog_open(argc, argv, -1);
  while (steplog_done < steplog_steps) {
    memset(bytes, 0, sizeof bytes);
    const ssize_t got = getrandom(bytes, sizeof bytes, 0);
    if (got != (ssize_t)sizeof bytes) steplog_fail("%zd random bytes of %zu", got, sizeof bytes);
    for (size_t at = 0; at < sizeof bytes; at += kPiece) STEPLOG_CHECK(memcmp(bytes + at, none, kPiece) != 0);
    steplog_mix((uint64_t)got);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
