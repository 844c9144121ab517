// Makes many children. After a restart in a fresh pid namespace, one of them gets the pid that the program
// believes to be its own (or its parent's). Neither the program nor the child may take it for the program.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steplog.h"

static volatile sig_atomic_t hit;
static void on_signal(int number) { hit += number == SIGUSR2; }

static volatile sig_atomic_t died;
static void on_death(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  died = info->si_pid;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  struct sigaction action = {.sa_sigaction = on_death, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGCHLD, &action, NULL);
  signal(SIGUSR2, on_signal);
  const pid_t self = getpid();
  while (steplog_done < steplog_steps) {
    for (int i = 0; i < 8; i++) {
      pid_t child = fork();
      STEPLOG_CHECK(child >= 0);
      if (child == 0) {
        if (getpid() == self || getppid() != self || gettid() != getpid()) _exit(1);
        if (kill(self, 0) || kill(getpid(), 0)) _exit(2);
        signal(SIGUSR2, SIG_DFL);
        raise(SIGUSR2);
        _exit(3);
      }
      STEPLOG_CHECK(child != self && getpid() == self);
      STEPLOG_CHECK(!kill(child, SIGCONT));
      int status;
      siginfo_t info;
      STEPLOG_CHECK(!waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) && info.si_pid == child);
      STEPLOG_CHECK(waitpid(child, &status, 0) == child);
      if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGUSR2)
        steplog_fail("a child (%d) ended with status %x", child, status);
      STEPLOG_CHECK(died == child);
      STEPLOG_CHECK(!kill(self, SIGUSR2) && hit == 1);
      hit = 0;
      STEPLOG_CHECK(kill(child, 0) == -1 && errno == ESRCH);
    }
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
