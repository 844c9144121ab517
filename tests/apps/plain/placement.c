// Memory at addresses that the program chooses, and very many mappings: MAP_32BIT, MAP_FIXED at far
// addresses, mremap to a fixed address, growth by mremap, and 20000 mappings of varied sizes, which must not
// enlarge the address space.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "steplog.h"

enum { kPage = 4096, kLive = 64, kEach = 20000 };

static void fill(unsigned char* at, size_t size, unsigned seed) {
  for (size_t i = 0; i < size; i += 64) at[i] = (unsigned char)(seed + i / 64);
}
static int holds(const unsigned char* at, size_t size, unsigned seed) {
  for (size_t i = 0; i < size; i += 64)
    if (at[i] != (unsigned char)(seed + i / 64)) return 0;
  return 1;
}

static long status_kilobytes(const char* field) {
  FILE* f = fopen("/proc/self/status", "r");
  char line[256];
  long value = -1;
  STEPLOG_CHECK(f);
  while (fgets(line, sizeof line, f))
    if (!strncmp(line, field, strlen(field)) && line[strlen(field)] == ':')
      value = atol(line + strlen(field) + 1);
  fclose(f);
  STEPLOG_CHECK(value >= 0);
  return value;
}

static long mappings(void) {
  FILE* f = fopen("/proc/self/maps", "r");
  long lines = 0;
  STEPLOG_CHECK(f);
  for (int c; (c = getc(f)) != EOF;) lines += c == '\n';
  fclose(f);
  return lines;
}

static void* map(void* at, size_t size, int flags) {
  void* p = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  STEPLOG_CHECK(p != MAP_FAILED);
  return p;
}

static void map_and_unmap(uint64_t* random, long count) {
  static struct {
    unsigned char* at;
    size_t size;
  } live[kLive];
  for (long k = 0; k < count; k++) {
    uint64_t r = steplog_random(random);
    unsigned slot = r % kLive;
    if (live[slot].at) {
      STEPLOG_CHECK(*live[slot].at == slot);
      STEPLOG_CHECK(!munmap(live[slot].at, live[slot].size));
    }
    // mostly small, some up to 20 MB
    live[slot].size = (1 + (r >> 16) % (r >> 10 & 15 ? 300 : 5000)) * kPage;
    live[slot].at = map(NULL, live[slot].size, MAP_NORESERVE);
    STEPLOG_CHECK(*live[slot].at == 0);
    *live[slot].at = (unsigned char)slot;
  }
  for (unsigned slot = 0; slot < kLive; slot++)
    if (live[slot].at) munmap(live[slot].at, live[slot].size), live[slot].at = NULL;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  unsigned char* low = map(NULL, 16 * kPage, MAP_32BIT);
  STEPLOG_CHECK((uintptr_t)low < 1ul << 31);
  for (int k = 0; k < 1500; k++) map(NULL, kPage, MAP_32BIT);
  unsigned char* const far = (unsigned char*)0x123400000000;
  STEPLOG_CHECK(map(far, 32 * kPage, MAP_FIXED_NOREPLACE) == far);
  STEPLOG_CHECK(map(far + 8 * kPage, 4 * kPage, MAP_FIXED) == far + 8 * kPage);  // replaces a part of it
  unsigned char* const moved = (unsigned char*)0x135600000000;
  unsigned char* source = map(NULL, 3 * kPage, 0);
  fill(source, 3 * kPage, 5);
  STEPLOG_CHECK(mremap(source, 3 * kPage, 3 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, moved) == moved);
  fill(low, 16 * kPage, 1), fill(far, 32 * kPage, 2);
  size_t size = kPage;
  unsigned char* grown = map(NULL, size, 0);
  fill(grown, size, 9);

  uint64_t random = 11;
  map_and_unmap(&random, 2000);  // the C library and the kernel have now allocated what they keep
  long lines = mappings(), space = status_kilobytes("VmSize"), tables = status_kilobytes("VmPTE");
  map_and_unmap(&random, kEach);
  STEPLOG_CHECK(mappings() <= lines + 4);
  STEPLOG_CHECK(status_kilobytes("VmSize") <= space + 1024);
  STEPLOG_CHECK(status_kilobytes("VmPTE") <= tables + 1024);

  while (steplog_done < steplog_steps) {
    STEPLOG_CHECK(holds(low, 16 * kPage, 1) && holds(far, 32 * kPage, 2) && holds(moved, 3 * kPage, 5));
    size_t larger = size + (size_t)(1 + steplog_done % 7) * kPage;
    unsigned char* at = mremap(grown, size, larger, MREMAP_MAYMOVE);
    STEPLOG_CHECK(at != MAP_FAILED && holds(at, size, 9));
    for (size_t i = size; i < larger; i++) STEPLOG_CHECK(at[i] == 0);
    grown = at, size = larger;
    fill(grown, size, 9);
    map_and_unmap(&random, 300);
    steplog_mix(random);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
