// For LD_AUDIT: maps a page at an address that the upper half needs, before any other code of the process
// runs.
#define _GNU_SOURCE
#include <sys/mman.h>

unsigned la_version(unsigned version);
unsigned la_version(unsigned version) {
  mmap((void*)0x410000000000, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  return version;
}
