// Children that share memory and descriptors and run concurrently with the program: clone(CLONE_VM |
// CLONE_FILES), and one that shares memory only. Files that they open and close are the program's in the
// first case, not in the second.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steplog.h"

static char stack[65536] __attribute__((aligned(16)));
static volatile int opened, to_close;

static int child(void* nothing) {
  (void)nothing;
  if (to_close >= 0) close(to_close);
  opened = open("/proc/sys/kernel/ostype", O_RDONLY);
  return 0;
}

static int is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

static void run(int flags) {
  int status = -1;
  const pid_t pid = clone(child, stack + sizeof stack, flags | SIGCHLD, NULL);
  STEPLOG_CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  int file = -1;
  while (steplog_done < steplog_steps) {
    to_close = file;
    run(CLONE_VM | CLONE_FILES);
    STEPLOG_CHECK(opened >= 0 && is_open(opened));
    file = opened;
    to_close = file;  // its own copy of the descriptor
    run(CLONE_VM);
    STEPLOG_CHECK(is_open(file));
    char text[16] = "";
    STEPLOG_CHECK(pread(file, text, 5, 0) == 5 && !strcmp(text, "Linux"));
    steplog_mix((uint64_t)file);
    steplog_step();
    STEPLOG_CHECK(pread(file, text, 5, 0) == 5 && is_open(file));
  }
  steplog_ok();
  return 0;
}
