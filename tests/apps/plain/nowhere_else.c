// Occupies nearly all addresses where the kernel places libraries at random (by MAP_FIXED_NOREPLACE), so that
// another process's libraries are almost always in the way of a restart.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/personality.h>

#include "steplog.h"

static const uintptr_t kFirst = 0x7e0000000000, kLast = 0x7ff000000000, kPart = 1ul << 36;

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  static unsigned char* mine[64];
  int count = 0;
  for (uintptr_t at = kFirst; at < kLast; at += kPart) {
    unsigned char* p = mmap((void*)at, kPart, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == MAP_FAILED) continue;
    STEPLOG_CHECK((uintptr_t)p == at && !mprotect(p, 4096, PROT_READ | PROT_WRITE));
    p[17] = (unsigned char)(count + 1);
    mine[count++] = p;
  }
  STEPLOG_CHECK(count > 20);
  const int kind = personality(0xffffffff);
  while (steplog_done < steplog_steps) {
    for (int i = 0; i < count; i++) STEPLOG_CHECK(mine[i][17] == i + 1 && mine[i][18] == 0);
    STEPLOG_CHECK(personality(0xffffffff) == kind);
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
