// Memory that grows down (MAP_GROWSDOWN), and the stack, whose limit the program raises (setrlimit(2)): both
// grow when touched below, also after a restart.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/resource.h>

#include "steplog.h"

enum { kPage = 4096, kFrame = 16 << 10 };

static __attribute__((noinline)) uint64_t deep(long levels) {
  volatile unsigned char frame[kFrame];
  for (int i = 0; i < kFrame; i += kPage / 2) frame[i] = (unsigned char)(levels + i);
  const uint64_t below = levels > 1 ? deep(levels - 1) : 0;
  for (int i = 0; i < kFrame; i += kPage / 2) STEPLOG_CHECK(frame[i] == (unsigned char)(levels + i));
  return below + frame[0];
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  struct rlimit limit;
  STEPLOG_CHECK(!getrlimit(RLIMIT_STACK, &limit));
  if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < (1ul << 30)) {
    limit.rlim_cur = limit.rlim_max < (1ul << 30) ? limit.rlim_max : 1ul << 30;
    STEPLOG_CHECK(!setrlimit(RLIMIT_STACK, &limit));
  }
  const long most =
      (long)((limit.rlim_cur < (160ul << 20) ? limit.rlim_cur : 160ul << 20) * 3 / 4 / (kFrame + 256));
  // In the middle of free addresses: the kernel might otherwise place the mapping without room to grow.
  unsigned char* room = mmap(NULL, 8ul << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STEPLOG_CHECK(room != MAP_FAILED && !munmap(room, 8ul << 20));
  unsigned char* const top = room + (6ul << 20);
  STEPLOG_CHECK(mmap(top - 2 * kPage, 2 * kPage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE, -1,
                     0) == top - 2 * kPage);
  while (steplog_done < steplog_steps) {
    setrlimit(RLIMIT_STACK, &limit);
    const long grown = 2 + steplog_done;  // in pages
    for (long page = 1; page <= grown; page++) {
      if (page < grown && page > 2) STEPLOG_CHECK(top[-page * kPage] == (unsigned char)page);
      top[-page * kPage] = (unsigned char)page;
    }
    steplog_mix(deep(1 + most * (steplog_done + 1) / steplog_steps));
    steplog_step();
  }
  steplog_ok();
  return 0;
}
