// Opens and closes files as fast as possible, so that checkpoints come between a system call and the
// program's record of it. After a restart, every descriptor that open returned belongs to the program, and
// every closed one stays closed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "steplog.h"

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  long pace = steplog_pace;
  steplog_pace = 0;
  while (steplog_done < steplog_steps) {
    double end = steplog_now() + (double)pace * 1e-6;
    long rounds = 0;
    while (steplog_now() < end || rounds < 100) {
      int a = open("/dev/zero", O_RDONLY), b = dup(a), c = fcntl(a, F_DUPFD_CLOEXEC, 100);
      STEPLOG_CHECK(a >= 0 && b > a && c >= 100);
      char byte = 1;
      STEPLOG_CHECK(read(a, &byte, 1) == 1 && byte == 0 && read(b, &byte, 1) == 1 && read(c, &byte, 1) == 1);
      STEPLOG_CHECK(close(a) == 0 && close(b) == 0 && close(c) == 0);
      STEPLOG_CHECK(read(a, &byte, 1) == -1 && errno == EBADF);
      rounds++;
    }
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
