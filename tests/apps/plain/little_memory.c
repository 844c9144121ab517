// Leaves no room under its limit of addresses (RLIMIT_AS) until the file WORK/more is there, and has so many
// mappings that describing them takes more than what a C library has in reserve (an arena of 64 MB).
// Arguments: --work WORK
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "steplog.h"

enum { kPage = 4096, kPages = 28000 };

static rlim_t addresses_in_use(void) {
  unsigned long pages = 0;
  FILE* f = fopen("/proc/self/statm", "r");
  STEPLOG_CHECK(f && fscanf(f, "%lu", &pages) == 1);
  fclose(f);
  return (rlim_t)pages * kPage;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  char more[4096] = "";
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--work")) snprintf(more, sizeof more, "%s/more", argv[i + 1]);
  unsigned char* p = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STEPLOG_CHECK(p != MAP_FAILED);
  for (int i = 0; i < kPages; i++) p[(size_t)i * kPage] = (unsigned char)(i % 251 + 1);
  for (int i = 0; i < kPages; i += 2) STEPLOG_CHECK(!mprotect(p + (size_t)i * kPage, kPage, PROT_READ));
  struct rlimit as;
  STEPLOG_CHECK(!getrlimit(RLIMIT_AS, &as));
  const struct rlimit none = {addresses_in_use(), as.rlim_max};
  STEPLOG_CHECK(!setrlimit(RLIMIT_AS, &none));
  int limited = 1;
  while (limited || steplog_done < steplog_steps) {
    for (int i = 0; i < kPages; i++) STEPLOG_CHECK(p[(size_t)i * kPage] == i % 251 + 1);
    if (limited && !access(more, F_OK)) limited = setrlimit(RLIMIT_AS, &as) != 0;
    steplog_step();
    if (limited) steplog_steps = steplog_done + 100;  // of those without the limit
  }
  steplog_mix(p[0]);
  steplog_ok();
  return 0;
}
