// Process and thread ids stay the same, and calls that take them reach this process.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steplog.h"

static volatile sig_atomic_t received;

static void count(int number) {
  (void)number;
  received++;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  pid_t pid = getpid(), tid = gettid();
  pthread_t self = pthread_self();
  signal(SIGUSR2, count);
  while (steplog_done < steplog_steps) {
    STEPLOG_CHECK(getpid() == pid && gettid() == tid && pthread_equal(self, pthread_self()));
    STEPLOG_CHECK(syscall(SYS_getpid) == pid && syscall(SYS_gettid) == tid);
    long before = received;
    STEPLOG_CHECK(!kill(getpid(), SIGUSR2) && received == before + 1);
    STEPLOG_CHECK(!syscall(SYS_tgkill, pid, tid, SIGUSR2) && received == before + 2);
    STEPLOG_CHECK(!pthread_kill(pthread_self(), SIGUSR2) && received == before + 3);
    STEPLOG_CHECK(!kill(pid, 0));
    steplog_mix((uint64_t)received);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
