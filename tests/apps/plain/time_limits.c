// Timed calls that the kernel does not restart after a signal (signal(7)): a socket's SO_RCVTIMEO and
// SO_SNDTIMEO, and io_uring_enter. The program gets no signals, so each call must last its full time.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "steplog.h"

static int run_out(long result) { return result == -1 ? errno : 0; }

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  const struct timeval limit = {0, 150000};
  int ends[2];
  char bytes[4096] = "";
  STEPLOG_CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
  STEPLOG_CHECK(!setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) &&
                !setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
  while (send(ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
  }
  while (steplog_done < steplog_steps) {
    STEPLOG_CHECK(run_out(recv(ends[0], bytes, sizeof bytes, 0)) == EAGAIN);
    STEPLOG_CHECK(run_out(read(ends[0], bytes, sizeof bytes)) == EAGAIN);
    STEPLOG_CHECK(run_out(write(ends[0], bytes, sizeof bytes)) == EAGAIN);
    steplog_step();
  }
  close(ends[0]), close(ends[1]);
  struct io_uring_params parameters;
  memset(&parameters, 0, sizeof parameters);
  const int ring = (int)syscall(SYS_io_uring_setup, 4, &parameters);  // may be forbidden here
  if (ring >= 0) {
    const struct timespec time = {0, 150000000};
    const struct io_uring_getevents_arg argument = {.ts = (uint64_t)(uintptr_t)&time};
    for (int i = 0; i < 10; i++) {
      const unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
      STEPLOG_CHECK(run_out(syscall(SYS_io_uring_enter, ring, 0, 1, flags, &argument, sizeof argument)) ==
                    ETIME);
    }
  }
  steplog_ok();
  return 0;
}
