// Maps and unmaps more addresses than any window has, then fills the given addresses with permanent mappings;
// the stack must still be able to grow to its limit.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/resource.h>

#include "steplog.h"

enum { kKept = 300, kFrame = 16384 };

__attribute__((noinline)) static unsigned deep(long bytes) {
  volatile unsigned char frame[kFrame];
  frame[0] = (unsigned char)bytes;
  const unsigned below = bytes <= 0 ? 0 : deep(bytes - kFrame);
  return below + frame[0];  // read afterwards, so that the frame is kept
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  const size_t step = 4096, large = 1ul << 35, kept = 1ul << 30;
  // Until a mapping lies below the stack, or all were given out; sizes vary, so that no address is reused.
  char *p = (char*)-1, here;
  for (size_t i = 0; i < 1200 && p > &here; i++) {
    p = mmap(NULL, large + i * step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    STEPLOG_CHECK(p != MAP_FAILED && !munmap(p, large + i * step));
  }
  for (int i = 0; i < kKept; i++)
    STEPLOG_CHECK(mmap(NULL, kept, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) !=
                  MAP_FAILED);
  struct rlimit limit;
  const rlim_t wanted = 64 << 20;
  STEPLOG_CHECK(!getrlimit(RLIMIT_STACK, &limit));
  limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
  STEPLOG_CHECK(!setrlimit(RLIMIT_STACK, &limit));
  const long enough = (long)limit.rlim_cur - (1 << 20);
  while (steplog_done < steplog_steps) {
    steplog_mix(deep(enough / steplog_steps * steplog_done));  // a little deeper in each step
    steplog_step();
  }
  steplog_ok();
  return 0;
}
