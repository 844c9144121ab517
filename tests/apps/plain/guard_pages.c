// Guard pages (MADV_GUARD_INSTALL): touching one raises SIGSEGV, its neighbours are unchanged, and removing
// it gives fresh memory. Kernels before Linux 6.13 have none and refuse; then the mapping has ordinary pages.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "faults.h"
#include "steplog.h"

enum { kPage = 4096, kPages = 64, kInstall = 102, kRemove = 103 };

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  catch_faults(SIGSEGV);
  unsigned char* p = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STEPLOG_CHECK(p != MAP_FAILED);
  memset(p, 5, kPages * kPage);
  int guards = 1;
  for (int i = 3; i < kPages; i += 4)
    if (madvise(p + i * kPage, kPage, kInstall) != 0) guards = 0;
  STEPLOG_CHECK(guards || errno == EINVAL);
  mprotect(p + 32 * kPage, 8 * kPage, PROT_NONE);  // guard pages at its lower end
  if (!guards) steplog_at("no-guards");
  while (steplog_done < steplog_steps) {
    for (int i = 0; i < 32; i++) {
      STEPLOG_CHECK(faults(p + i * kPage) == (guards && i % 4 == 3 && i / 4 >= steplog_done / 6));
      if (i % 4 != 3) STEPLOG_CHECK(p[i * kPage + 77] == 5);
    }
    if (steplog_done % 6 == 5) {
      const int i = (int)(steplog_done / 6) * 4 + 3;
      if (guards && i < 32) STEPLOG_CHECK(!madvise(p + i * kPage, kPage, kRemove) && p[i * kPage] == 0);
    }
    if (steplog_done == steplog_steps - 1) {
      mprotect(p + 32 * kPage, 8 * kPage, PROT_READ);
      for (int i = 32; i < 40; i++) STEPLOG_CHECK(faults(p + i * kPage) == (guards && i % 4 == 3));
    }
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
