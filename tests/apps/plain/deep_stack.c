// The stack grows by half a megabyte in each step, to 24 MB in 48 steps: more than the usual limit (ulimit
// -s).
#include "steplog.h"

enum { kBlock = 1 << 16 };

static uint64_t fill(long depth) {
  volatile unsigned char block[kBlock];
  for (long i = 0; i < kBlock; i += 512) block[i] = (unsigned char)(depth + i / 512);
  uint64_t sum = depth > 0 ? fill(depth - 1) : 0;
  for (long i = 0; i < kBlock; i += 512) STEPLOG_CHECK(block[i] == (unsigned char)(depth + i / 512));
  return sum + block[kBlock - 512];
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  while (steplog_done < steplog_steps) {
    steplog_mix(fill((steplog_done + 1) * 8));
    steplog_step();
  }
  steplog_ok();
  return 0;
}
