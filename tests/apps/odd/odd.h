// Shared by the unusual programs: each source file is a theme with a table of cases, `odd_THEME NAME --steps
// N --log FILE`. A case sets up something unusual, and checks in every step that it is unchanged:
//     while (odd_more()) ODD_CHECK(...);
// Half of each step's pace is spent computing, half sleeping, so that cuts meet both.
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steplog.h"

#define ODD_CHECK STEPLOG_CHECK

struct oddity {
  const char* name;
  void (*run)(void);
};

static int odd_argc;
static char** odd_argv;

static inline void odd_sleep(long microseconds) {
  struct timespec left = {microseconds / 1000000, microseconds % 1000000 * 1000};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
  }
}

// Ends a step (except on the first call); false after the last step.
static inline bool odd_more(void) {
  static bool begun;
  if (begun) {
    long pace = steplog_pace;
    steplog_pace = 0;
    steplog_step();
    steplog_pace = pace;
    steplog_mix((uint64_t)steplog_done);
    steplog_spin(pace / 10);
    odd_sleep(pace - pace / 10);
  }
  begun = true;
  return steplog_done < steplog_steps;
}

static inline int odd_main(int argc, char** argv, const struct oddity* table, size_t count) {
  odd_argc = argc;
  odd_argv = argv;
  for (size_t i = 0; i < count && argc > 1; i++)
    if (!strcmp(argv[1], table[i].name)) {
      steplog_open(argc, argv, -1);
      table[i].run();
      steplog_ok();
      return 0;
    }
  return 2;
}

#define ODD_MAIN(table) \
  int main(int argc, char** argv) { return odd_main(argc, argv, table, sizeof table / sizeof *table); }

// A file in the working directory with `size` bytes of the pattern `seed`, opened with `flags`.
static inline unsigned char odd_byte(uint64_t seed, uint64_t at) {
  return (unsigned char)((at * 0x9e3779b97f4a7c15u + seed * 0x94d049bb133111ebu) >> 56);
}

static inline int odd_file(const char* name, size_t size, uint64_t seed, int flags) {
  int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0600);
  ODD_CHECK(fd >= 0);
  unsigned char* bytes = (unsigned char*)malloc(size + 1);
  for (size_t i = 0; i < size; i++) bytes[i] = odd_byte(seed, i);
  ODD_CHECK(write(fd, bytes, size) == (ssize_t)size);
  free(bytes);
  ODD_CHECK(close(fd) == 0);
  fd = open(name, flags);
  ODD_CHECK(fd >= 0);
  return fd;
}

static inline void odd_reads(int fd, uint64_t seed, uint64_t at,
                             size_t size) {  // by read(2), from the descriptor's offset
  unsigned char bytes[4096];
  ODD_CHECK(read(fd, bytes, size) == (ssize_t)size);
  for (size_t i = 0; i < size; i++) ODD_CHECK(bytes[i] == odd_byte(seed, at + i));
}
