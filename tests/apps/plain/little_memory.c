// Limits its address space (RLIMIT_AS) so that a thread's stack fits but not a C library's reserve (an arena
// of 64 MB). When the file WORK/full appears, it uses up the rest, with so many mappings that describing them
// takes more than such a reserve. Its second thread ends when WORK/alone appears, and the limit when
// WORK/more appears. Arguments: --work WORK
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "steplog.h"

enum { kPage = 4096, kPages = 28000, kRoom = 8 << 20 };

static struct rlimit as;
static const char* work = ".";
static unsigned char* p;

static int is_there(const char* name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", work, name);
  return !access(path, F_OK);
}

static void leave(rlim_t room) {
  unsigned long pages = 0;
  FILE* f = fopen("/proc/self/statm", "r");
  STEPLOG_CHECK(f && fscanf(f, "%lu", &pages) == 1);
  fclose(f);
  const struct rlimit little = {(rlim_t)pages * kPage + room, as.rlim_max};
  STEPLOG_CHECK(!setrlimit(RLIMIT_AS, &little));
}

static void fill(void) {
  STEPLOG_CHECK(!setrlimit(RLIMIT_AS, &as));
  p = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STEPLOG_CHECK(p != MAP_FAILED);
  for (int i = 0; i < kPages; i++) p[(size_t)i * kPage] = (unsigned char)(i % 251 + 1);
  for (int i = 0; i < kPages; i += 2) STEPLOG_CHECK(!mprotect(p + (size_t)i * kPage, kPage, PROT_READ));
  leave(0);
}

static void* wait_to_be_alone(void* unused) {
  while (!is_there("alone")) usleep(10000);
  return unused;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--work")) work = argv[i + 1];
  pthread_t second;
  STEPLOG_CHECK(!getrlimit(RLIMIT_AS, &as));
  STEPLOG_CHECK(!pthread_create(&second, NULL, wait_to_be_alone, NULL));
  leave(kRoom);
  int limited = 1;
  while (limited || steplog_done < steplog_steps) {
    for (int i = 0; p && i < kPages; i++) STEPLOG_CHECK(p[(size_t)i * kPage] == i % 251 + 1);
    if (!p && is_there("full")) fill();
    if (limited && is_there("more")) limited = setrlimit(RLIMIT_AS, &as) != 0;
    steplog_step();
    if (limited) steplog_steps = steplog_done + 100;  // counted from the end of the limit
  }
  STEPLOG_CHECK(!pthread_join(second, NULL));
  steplog_mix(p[0]);
  steplog_ok();
  return 0;
}
