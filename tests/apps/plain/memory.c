// Allocation patterns: malloc, realloc, mmap, munmap in the middle, mremap that may move, brk, protected
// pages, untouched memory. Each block has a pattern, which is checked before the block is changed or
// released.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "steplog.h"

enum { kBlocks = 200, kMaps = 40, kPage = 4096 };

typedef struct {
  unsigned char* at;
  size_t size;
  unsigned char seed;
} block;

static void fill(block* b) {
  for (size_t i = 0; i < b->size; i++) b->at[i] = (unsigned char)(b->seed + i * 7 + (i >> 9));
}

static void check(const block* b, size_t size) {
  for (size_t i = 0; i < size; i++) STEPLOG_CHECK(b->at[i] == (unsigned char)(b->seed + i * 7 + (i >> 9)));
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  static block blocks[kBlocks], maps[kMaps];
  uint64_t random = 7;
  const size_t huge = 1ul << 30;
  unsigned char* sparse =
      mmap(NULL, huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  STEPLOG_CHECK(sparse != MAP_FAILED);
  sparse[0] = 1, sparse[huge / 2] = 2, sparse[huge - 1] = 3;
  unsigned char* guarded = mmap(NULL, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(guarded, 0x5a, 3 * kPage);
  mprotect(guarded + kPage, kPage, PROT_NONE);
  mprotect(guarded + 2 * kPage, kPage, PROT_READ);
  unsigned char* heap = sbrk(64 * kPage);
  STEPLOG_CHECK(heap != (void*)-1);
  memset(heap, 0x3c, 64 * kPage);

  while (steplog_done < steplog_steps) {
    for (int k = 0; k < 60; k++) {
      uint64_t r = steplog_random(&random);
      block* b = &blocks[r % kBlocks];
      check(b, b->size);
      if (r >> 20 & 1 && b->at) {
        size_t old = b->size, size = 1 + (r >> 24) % 60000;
        b->at = realloc(b->at, size);
        STEPLOG_CHECK(b->at);
        check(b, old < size ? old : size);
        b->size = size;
      } else {
        free(b->at);
        b->size = 1 + (r >> 24) % (r >> 16 & 15 ? 3000 : 400000);
        b->at = malloc(b->size);
        STEPLOG_CHECK(b->at);
      }
      b->seed = (unsigned char)(r >> 8);
      fill(b);
      steplog_mix(b->size);
    }
    for (int k = 0; k < 4; k++) {
      uint64_t r = steplog_random(&random);
      block* m = &maps[r % kMaps];
      check(m, m->size);
      size_t size = (1 + (r >> 24) % 64) * kPage;
      if (m->at && r >> 20 & 1) {
        size_t old = m->size;
        m->at = mremap(m->at, old, size, MREMAP_MAYMOVE);
        STEPLOG_CHECK(m->at != MAP_FAILED);
        check(m, old < size ? old : size);
        for (size_t i = old; i < size; i++) STEPLOG_CHECK(m->at[i] == 0);
      } else {
        if (m->at) munmap(m->at, m->size);
        m->at = mmap(NULL, size + 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        STEPLOG_CHECK(m->at != MAP_FAILED);
        for (size_t i = 0; i < size + 2 * kPage; i += kPage) STEPLOG_CHECK(m->at[i] == 0);
        munmap(m->at + size, 2 * kPage);
      }
      m->size = size;
      m->seed = (unsigned char)(r >> 8);
      fill(m);
      steplog_mix(m->size);
    }
    STEPLOG_CHECK(sparse[0] == 1 && sparse[huge / 2] == 2 && sparse[huge - 1] == 3 && sparse[huge / 4] == 0);
    STEPLOG_CHECK(guarded[kPage - 1] == 0x5a && guarded[2 * kPage] == 0x5a);
    mprotect(guarded + kPage, kPage, PROT_READ);
    STEPLOG_CHECK(guarded[kPage + 17] == 0x5a);
    mprotect(guarded + kPage, kPage, PROT_NONE);
    for (int i = 0; i < 64 * kPage; i++) STEPLOG_CHECK(heap[i] == 0x3c);
    for (int i = 0; i < kBlocks; i++) check(&blocks[i], blocks[i].size);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
