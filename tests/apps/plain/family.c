// Parent and child know each other's ids, also after a restart: the child's getppid() is the parent's
// getpid(), a signal to that id reaches the parent, and the parent learns which child sent it.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steplog.h"

static volatile sig_atomic_t received, sender;

static void on_signal(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  received++;
  sender = info->si_pid;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGUSR2, &action, NULL);
  const pid_t parent = getpid();
  long wanted = 0;
  while (steplog_done < steplog_steps) {
    STEPLOG_CHECK(getpid() == parent);
    if (steplog_done % 8 == 0) {
      pid_t child = fork();
      STEPLOG_CHECK(child >= 0);
      if (child == 0) {
        if (getpid() == parent) _exit(1);
        if (getppid() != parent) _exit(2);
        if (kill(parent, 0)) _exit(3);
        if (kill(parent, SIGUSR2)) _exit(4);
        if (getpgid(parent) < 0) _exit(5);
        _exit(0);
      }
      int status;
      STEPLOG_CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
      if (WEXITSTATUS(status)) steplog_fail("the child's step %d", WEXITSTATUS(status));
      STEPLOG_CHECK(received == ++wanted && sender == child);
      STEPLOG_CHECK(kill(child, 0) == -1 && errno == ESRCH);
    }
    steplog_mix((uint64_t)received);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
