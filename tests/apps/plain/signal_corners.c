// Corner cases of signals, chosen by name: each sets up its state and verifies it in every step.
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

// Each alarm comes a little later than the previous one: a fork that takes longer than the interval would be
// restarted forever.
static volatile sig_atomic_t alarms_wanted;

static void set_alarm(long microseconds) {
  static long after;
  after = microseconds != 0 ? microseconds : after + after / 4;
  const struct itimerval once = {{0, 0}, {0, after}};
  STEPLOG_CHECK(!setitimer(ITIMER_REAL, &once, NULL));
}

// A handler that forks, in a program that forks: the handler interrupts the entry to and exit from system
// calls.
static void fork_and_wait(int number) {
  (void)number;
  const int saved = errno;
  pid_t child = fork();
  if (child == 0) _exit(7);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  alarms += WIFEXITED(status) && WEXITSTATUS(status) == 7;
  if (alarms_wanted) set_alarm(0);
  errno = saved;
}

static void forking_handler(void) {
  struct sigaction action = {.sa_handler = fork_and_wait, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval never = {{0, 0}, {0, 0}};
  alarms_wanted = 1;
  set_alarm(700);
  for (int i = 0; i < 12; i++) {
    pid_t child = i % 2 ? fork() : vfork();
    if (child == 0) _exit(5);
    STEPLOG_CHECK(child > 0 && ends_by(child) == -5);
  }
  alarms_wanted = 0;
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

// A child, and a program that it executes, dies of SIGUSR1 as natively, also after the parent has set
// SIG_DFL.
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

// Two signals are unblocked at once, both with handlers on the alternate stack; and sigaltstack reads its
// argument before it writes.
static volatile long taken[2];

static void on_either(int number, siginfo_t* info, void* context) {
  (void)context;
  char here;
  stack_t now;
  sigaltstack(NULL, &now);
  const int which = number == SIGRTMIN + 3;
  STEPLOG_CHECK(&here > (char*)now.ss_sp && &here < (char*)now.ss_sp + now.ss_size);
  STEPLOG_CHECK(info->si_signo == number && info->si_value.sival_int == 40 + which);
  taken[which]++;
}

static void two_at_once(void) {
  static char stacks[2][16384];
  stack_t stack = {.ss_sp = stacks[steplog_done % 2], .ss_size = sizeof stacks[0]};
  const stack_t wanted = stack;
  STEPLOG_CHECK(!syscall(SYS_sigaltstack, &stack, &stack));
  if (steplog_done > 0) STEPLOG_CHECK(stack.ss_sp == stacks[(steplog_done + 1) % 2]);
  STEPLOG_CHECK(!sigaltstack(NULL, &stack) && stack.ss_sp == wanted.ss_sp);
  struct sigaction action = {.sa_sigaction = on_either, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigaction(SIGUSR2, &action, NULL);
  sigaction(SIGRTMIN + 3, &action, NULL);
  sigset_t both;
  sigemptyset(&both), sigaddset(&both, SIGUSR2), sigaddset(&both, SIGRTMIN + 3);
  sigprocmask(SIG_BLOCK, &both, NULL);
  STEPLOG_CHECK(!sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = 40}));
  STEPLOG_CHECK(!sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 41}));
  sigprocmask(SIG_UNBLOCK, &both, NULL);
  STEPLOG_CHECK(taken[0] == steplog_done + 1 && taken[1] == steplog_done + 1);
}

int main(int argc, char** argv) {
  const char* what = argv[1];
  steplog_open(argc, argv, -1);
  while (steplog_done < steplog_steps) {
    if (!strcmp(what, "forking_handler")) forking_handler();
    if (!strcmp(what, "two_at_once")) two_at_once();
    if (!strcmp(what, "refused_clone")) refused_clone();
    if (!strcmp(what, "children_and_the_trigger")) children_and_the_trigger();
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  if (!strcmp(what, "timer_at_exit")) {  // handlers run until the process is gone
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    const struct itimerval often = {{0, 50}, {0, 50}};
    setitimer(ITIMER_REAL, &often, NULL);
    while (alarms < 3) {
    }
  }
  return 0;
}
