// Prints the addresses of its parts as "at NAME=ADDRESS" lines, at the start and the end. Checks in each step
// that they are unchanged and that the break never falls below its start.
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steplog.h"

enum { kParts = 7, kPage = 4096, kBelow = 64 << 20 };
static const char* const kNames[kParts] = {"code", "loader", "library", "stack", "brk", "mmap", "thread"};
static uintptr_t first[kParts];

static void say(const uintptr_t* where) {
  for (int i = 0; i < kParts; i++) {
    char text[64];
    snprintf(text, sizeof text, "%s=%lx", kNames[i], (unsigned long)where[i]);
    steplog_at(text);
  }
}

static void* local(void* to) {
  *(uintptr_t*)to = (uintptr_t)__builtin_frame_address(0);
  return NULL;
}

int main(int argc, char** argv) {
  first[4] = (uintptr_t)sbrk(0);  // before the program allocates
  steplog_open(argc, argv, -1);
  void* const mapped = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STEPLOG_CHECK(mapped != MAP_FAILED);
  memset(mapped, 7, kPage);
  first[0] = (uintptr_t)&main;
  first[1] = getauxval(AT_BASE);
  first[2] = (uintptr_t)stderr;
  first[3] = (uintptr_t)__builtin_frame_address(0);
  first[5] = (uintptr_t)mapped;
  pthread_t thread;
  STEPLOG_CHECK(!pthread_create(&thread, NULL, local, &first[6]) && !pthread_join(thread, NULL));
  say(first);
  uintptr_t top = first[4];
  while (steplog_done < steplog_steps) {
    STEPLOG_CHECK(first[0] == (uintptr_t)&main && first[2] == (uintptr_t)stderr);
    STEPLOG_CHECK(first[3] == (uintptr_t)__builtin_frame_address(0));
    STEPLOG_CHECK(*(unsigned char*)mapped == 7);
    STEPLOG_CHECK(syscall(SYS_brk, first[4] - kBelow) == syscall(SYS_brk, 0));  // must be refused
    unsigned char* const more = sbrk(kPage);
    STEPLOG_CHECK((uintptr_t)more >= top && (uintptr_t)more - top < 1 << 20 && *more == 0);
    *more = 1;
    top = (uintptr_t)more + kPage;
    steplog_step();
  }
  say(first);
  steplog_ok();
  return 0;
}
