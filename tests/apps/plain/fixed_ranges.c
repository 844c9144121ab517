// Makes thousands of mappings at far addresses (MAP_FIXED) and removes them, in whole or in part, by munmap
// and mremap; few exist at a time. Kept mappings stay, and so do the holes in their middle.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "steplog.h"

enum { kPage = 4096, kPages = 8, kKept = 40, kPassing = 5 };
static const uintptr_t kFirst = 0x200000000000, kApart = 1ul << 21;
static uintptr_t taken;

static unsigned char* map(void* at, size_t pages, int flags) {
  unsigned char* p =
      mmap(at, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  STEPLOG_CHECK(p != MAP_FAILED);
  return p;
}
static unsigned char* map_far(void) {  // at an address not used before
  void* at = (void*)(kFirst + taken++ * kApart);
  unsigned char* p = map(at, kPages, taken % 2 ? MAP_FIXED : MAP_FIXED_NOREPLACE);
  STEPLOG_CHECK(p == at);
  return p;
}
static int is_mapped(const unsigned char* page) {
  unsigned char there;
  return !mincore((void*)page, kPage, &there) || errno != ENOMEM;
}

// Uses each way in turn.
static void take_away(unsigned char* p) {
  *p = 7;
  switch (taken % 4) {
    case 0:
      STEPLOG_CHECK(!munmap(p, kPages * kPage));
      return;
    case 1:  // in pieces, one of which was unmapped before
      STEPLOG_CHECK(!munmap(p + kPage, 2 * kPage) && !munmap(p + 2 * kPage, 5 * kPage));
      STEPLOG_CHECK(!munmap(p, kPage) && !munmap(p + 7 * kPage, kPage));
      return;
    case 2: {  // to an address that the program chooses
      unsigned char* to = map(NULL, kPages, 0);
      STEPLOG_CHECK(mremap(p, kPages * kPage, kPages * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
      STEPLOG_CHECK(*to == 7 && !munmap(to, kPages * kPage));
      return;
    }
    default: {  // cannot grow in place
      STEPLOG_CHECK(mremap(p, kPages * kPage, kPage, 0) == p);
      map(p + kPage, 1, MAP_FIXED);
      unsigned char* to = mremap(p, kPage, 2 * kPage, MREMAP_MAYMOVE);
      STEPLOG_CHECK(to != MAP_FAILED && to != p && *to == 7);
      STEPLOG_CHECK(!munmap(to, 2 * kPage) && !munmap(p + kPage, kPage));
    }
  }
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  static unsigned char *kept[kKept], *passing[kPassing];
  for (int i = 0; i < kKept; i++) {
    kept[i] = map_far();
    STEPLOG_CHECK(!munmap(kept[i] + 2 * kPage, 2 * kPage));                                      // a hole
    STEPLOG_CHECK(mremap(kept[i] + 4 * kPage, 4 * kPage, 3 * kPage, 0) == kept[i] + 4 * kPage);  // shortened
    for (int page = 0; page < 7; page++)
      if (page != 2 && page != 3) kept[i][page * kPage] = (unsigned char)(i + page);
  }
  for (int i = 0; i < 3000; i++) take_away(map_far());
  while (steplog_done < steplog_steps) {
    for (int i = 0; i < kKept; i++)
      for (int page = 0; page < kPages; page++) {
        const unsigned char* at = kept[i] + page * kPage;
        if (page == 2 || page == 3 || page == 7)
          STEPLOG_CHECK(!is_mapped(at));
        else
          STEPLOG_CHECK(*at == (unsigned char)(i + page));
      }
    unsigned char** one = &passing[steplog_done % kPassing];
    if (*one) {
      STEPLOG_CHECK(**one == (unsigned char)(steplog_done - kPassing));
      take_away(*one);
    }
    *one = map_far();
    **one = (unsigned char)steplog_done;
    for (int i = 0; i < 100; i++) take_away(map_far());
    steplog_mix(taken);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
