// Thousands of separately touched pages in one mapping, too many for a single answer of the kernel.
#define _GNU_SOURCE
#include <sys/mman.h>

#include "steplog.h"

enum { kRuns = 10000, kStride = 8192 };

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  unsigned char* p =
      mmap(NULL, (size_t)kRuns * kStride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STEPLOG_CHECK(p != MAP_FAILED);
  madvise(p, (size_t)kRuns * kStride, MADV_NOHUGEPAGE);
  unsigned char* alone =
      mmap(NULL, 520 * 2 * kStride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STEPLOG_CHECK(alone != MAP_FAILED);
  for (int i = 0; i < kRuns; i++) p[(size_t)i * kStride] = (unsigned char)(1 + i % 251);
  for (int i = 0; i < 520; i++) alone[(size_t)i * kStride] = 1;
  while (steplog_done < steplog_steps) {
    for (int i = 0; i < kRuns; i++) {
      STEPLOG_CHECK(p[(size_t)i * kStride] == (unsigned char)(1 + i % 251));
    }
    for (int i = 0; i < 520; i++) STEPLOG_CHECK(alone[(size_t)i * kStride] == 1);
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
