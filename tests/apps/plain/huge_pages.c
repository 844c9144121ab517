// mmap's results for huge pages of every size, with lengths that are and are not multiples of it; unmapped at
// once.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "steplog.h"

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  const int kShift = 26;  // MAP_HUGE_SHIFT
  const size_t lengths[] = {4096, 2 << 20, 3 << 20, 1 << 30, (1 << 30) + 4096};
  const int sizes[] = {0, 16, 21, 30, 34};  // logarithms; 0: the default
  while (steplog_done < steplog_steps) {
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
      for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        errno = 0;
        void* p = mmap(NULL, lengths[l], PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | sizes[s] << kShift, -1, 0);
        steplog_mix(p == MAP_FAILED ? (uint64_t)errno : 0);
        const size_t page = 1ul << (sizes[s] ? sizes[s] : 21);
        if (p != MAP_FAILED) STEPLOG_CHECK(!munmap(p, (lengths[l] + page - 1) & ~(page - 1)));
      }
    steplog_step();
  }
  steplog_ok();
  return 0;
}
