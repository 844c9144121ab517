// Corners of signals, one by name: each sets its state up, and verifies it in every step.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steplog.h"

static volatile sig_atomic_t alarms;

static void on_alarm(int number) {
  (void)number;
  alarms++;
}

static int ends_by(pid_t child) {
  int status = 0;
  STEPLOG_CHECK(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

// A handler that forks, in a program that forks: the handler interrupts the way into and out of the calls.
static void fork_and_wait(int number) {
  (void)number;
  const int saved = errno;
  pid_t child = fork();
  if (child == 0) _exit(7);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  alarms += WIFEXITED(status) && WEXITSTATUS(status) == 7;
  errno = saved;
}

static void forking_handler(void) {
  struct sigaction action = {.sa_handler = fork_and_wait, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
  STEPLOG_CHECK(!setitimer(ITIMER_REAL, &often, NULL));
  for (int i = 0; i < 12; i++) {
    pid_t child = i % 2 ? fork() : vfork();
    if (child == 0) _exit(5);
    STEPLOG_CHECK(child > 0 && ends_by(child) == -5);
  }
  STEPLOG_CHECK(!setitimer(ITIMER_REAL, &never, NULL));
}

// A clone that the kernel refuses leaves no thread behind.
static void refused_clone(void) {
  static char stack[16384];
  for (int i = 0; i < 10; i++) {
    const long flags = CLONE_THREAD | CLONE_VM;  // without CLONE_SIGHAND: EINVAL (man 2 clone)
    STEPLOG_CHECK(syscall(SYS_clone, flags, stack + sizeof stack, NULL, NULL, NULL) == -1 && errno == EINVAL);
  }
}

// A child, and what it executes, dies of SIGUSR1 as natively, also after the parent has said SIG_DFL.
static void children_and_the_trigger(void) {
  signal(SIGUSR1, SIG_DFL);
  pid_t child = fork();
  if (child == 0) {
    raise(SIGUSR1);
    _exit(3);
  }
  STEPLOG_CHECK(ends_by(child) == SIGUSR1);
  STEPLOG_CHECK(system("kill -USR1 $$; exit 4") == SIGUSR1);
  child = fork();
  if (child == 0) {
    signal(SIGUSR1, SIG_DFL);
    kill(getpid(), SIGUSR1);
    _exit(3);
  }
  STEPLOG_CHECK(ends_by(child) == SIGUSR1);
}

int main(int argc, char** argv) {
  const char* what = argv[1];
  steplog_open(argc, argv, -1);
  while (steplog_done < steplog_steps) {
    if (!strcmp(what, "forking_handler")) forking_handler();
    if (!strcmp(what, "refused_clone")) refused_clone();
    if (!strcmp(what, "children_and_the_trigger")) children_and_the_trigger();
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  if (!strcmp(what, "timer_at_exit")) {  // handlers run until the very end
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    const struct itimerval often = {{0, 50}, {0, 50}};
    setitimer(ITIMER_REAL, &often, NULL);
    while (alarms < 3) {
    }
  }
  return 0;
}
