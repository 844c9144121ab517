// Lengths beyond any address space, near 2^64 and 2^47: each call fails as natively, and later mappings get
// the addresses that they would have got anyway.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steplog.h"

static const size_t kLengths[] = {~(size_t)0,
                                  ~(size_t)4095,
                                  ~(size_t)0 - 8191,
                                  (size_t)1 << 63,
                                  ((size_t)1 << 63) - 4096,
                                  -((size_t)1 << 46),
                                  -((size_t)1 << 45),
                                  ((size_t)1 << 48) + 4096,
                                  (size_t)1 << 47};

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  const int mine = PROT_READ | PROT_WRITE, private = MAP_PRIVATE | MAP_ANONYMOUS;
  unsigned char *first = mmap(NULL, 3 * 4096, mine, private, -1, 0), *last = first;
  memset(first, 7, 3 * 4096);
  while (steplog_done < steplog_steps) {
    for (size_t i = 0; i < sizeof kLengths / sizeof *kLengths; i++) {
      const size_t length = kLengths[i];
      errno = 0;
      STEPLOG_CHECK(mmap(NULL, length, mine, private | MAP_NORESERVE, -1, 0) == MAP_FAILED);
      steplog_mix((uint64_t)errno);
      STEPLOG_CHECK(mmap(first, length, mine, private | MAP_NORESERVE, -1, 0) == MAP_FAILED);
      STEPLOG_CHECK(mmap(NULL, length, mine, private | MAP_NORESERVE | MAP_32BIT, -1, 0) == MAP_FAILED);
      STEPLOG_CHECK(mmap((void*)0x123400000000, length, mine, private | MAP_FIXED_NOREPLACE | MAP_NORESERVE,
                         -1, 0) == MAP_FAILED);
      STEPLOG_CHECK(mmap(NULL, length, mine, private | MAP_GROWSDOWN | MAP_NORESERVE, -1, 0) == MAP_FAILED);
      STEPLOG_CHECK(mremap(first, 4096, length, MREMAP_MAYMOVE) == MAP_FAILED);
      STEPLOG_CHECK(mremap(first, 4096, length, 0) == MAP_FAILED);
      STEPLOG_CHECK(mremap(first, 4096, length, MREMAP_MAYMOVE | MREMAP_FIXED, (void*)0x135600000000) ==
                    MAP_FAILED);
      STEPLOG_CHECK(sbrk((intptr_t)(length >> 1)) == (void*)-1);
      unsigned char* p = mmap(NULL, 8 * 4096, mine, private, -1, 0);
      STEPLOG_CHECK(p != MAP_FAILED);
      // In the same part of the address space as before, and unused.
      const uintptr_t distance = p > first ? (uintptr_t)(p - first) : (uintptr_t)(first - p);
      STEPLOG_CHECK(distance < (uintptr_t)1 << 44);
      for (int k = 0; k < 8 * 4096; k++) STEPLOG_CHECK(p[k] == 0);
      memset(p, 9, 8 * 4096);
      for (int k = 0; k < 3 * 4096; k++) STEPLOG_CHECK(first[k] == 7);
      if (last != first) munmap(last, 8 * 4096);
      last = p;
    }
    steplog_step();
  }
  steplog_ok();
  return 0;
}
