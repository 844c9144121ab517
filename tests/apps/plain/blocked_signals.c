// Blocks every signal that it can, including SIGSYS: in the process's mask, in the masks of handlers, and in
// those of ppoll, pselect and sigsuspend; meanwhile it maps memory and opens files. Uses signal 63 itself,
// too.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steplog.h"

enum { kOwn = 63, kPage = 4096 };
static volatile sig_atomic_t alarms, own, own_value;

// System calls that CropDL's core must see: placement, descriptors, links.
static void use_the_kernel(void) {
  unsigned char* at = mmap(NULL, 5 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STEPLOG_CHECK(at != MAP_FAILED);
  memset(at, 3, 5 * kPage);
  at = mremap(at, 5 * kPage, 500 * kPage, MREMAP_MAYMOVE);
  STEPLOG_CHECK(at != MAP_FAILED && at[5 * kPage - 1] == 3 && at[5 * kPage] == 0);
  STEPLOG_CHECK(!munmap(at, 500 * kPage));
  long raw = syscall(SYS_mmap, NULL, (size_t)kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STEPLOG_CHECK(raw != -1 && !munmap((void*)raw, kPage));
  int fd = open("/dev/null", O_RDWR), copy = dup(fd);
  STEPLOG_CHECK(fd >= 0 && copy >= 0 && !close(fd) && !close(copy));
}

static void on_alarm(int number) {
  (void)number;
  use_the_kernel();
  alarms++;
}

static void on_own(int number, siginfo_t* info, void* context) {
  (void)context;
  own += number == kOwn;
  own_value = info->si_value.sival_int;
  use_the_kernel();
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  sigset_t all, all_but_alarm, none;
  sigfillset(&all), sigfillset(&all_but_alarm), sigemptyset(&none);
  sigdelset(&all_but_alarm, SIGALRM);
  struct sigaction action = {.sa_handler = on_alarm};
  action.sa_mask = all;
  STEPLOG_CHECK(!sigaction(SIGALRM, &action, NULL));
  struct sigaction other = {.sa_sigaction = on_own, .sa_flags = SA_SIGINFO};
  other.sa_mask = all;
  STEPLOG_CHECK(!sigaction(kOwn, &other, NULL));
  for (int number = 1; number < 65; number++) {  // ignore the other signals, including SIGSYS, as daemons do
    if (number != SIGALRM && number != kOwn && number != SIGCHLD && number != SIGUSR1 && number != SIGSEGV)
      signal(number, SIG_IGN);
  }
  STEPLOG_CHECK(!sigprocmask(SIG_SETMASK, &all, NULL));
  const struct timespec no_time = {0, 1000000};
  long wanted = 0;
  while (steplog_done < steplog_steps) {
    use_the_kernel();
    STEPLOG_CHECK(!sigprocmask(SIG_BLOCK, &all, NULL));
    kill(getpid(), SIGALRM);
    STEPLOG_CHECK(alarms == wanted);
    errno = 0;
    switch (steplog_done % 4) {
      case 0:
        STEPLOG_CHECK(sigsuspend(&all_but_alarm) == -1 && errno == EINTR);
        break;
      case 1:
        STEPLOG_CHECK(ppoll(NULL, 0, NULL, &all_but_alarm) == -1 && errno == EINTR);
        break;
      case 2:
        STEPLOG_CHECK(pselect(0, NULL, NULL, NULL, NULL, &all_but_alarm) == -1 && errno == EINTR);
        break;
      case 3:
        STEPLOG_CHECK(!sigprocmask(SIG_SETMASK, &all_but_alarm, NULL));
        break;
    }
    wanted++;
    STEPLOG_CHECK(alarms == wanted);
    sigprocmask(SIG_SETMASK, &all, NULL);
    STEPLOG_CHECK(ppoll(NULL, 0, &no_time, &all) == 0);
    STEPLOG_CHECK(pselect(0, NULL, NULL, NULL, &no_time, &all) == 0);
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    STEPLOG_CHECK(sigismember(&now, SIGALRM) == 1 && sigismember(&now, SIGTERM) == 1);
    steplog_spin(steplog_pace / 2);  // all signals are blocked here

    sigprocmask(SIG_SETMASK, &none, NULL);
    STEPLOG_CHECK(!sigqueue(getpid(), kOwn, (union sigval){.sival_int = (int)steplog_done + 9}));
    STEPLOG_CHECK(own == steplog_done + 1 && own_value == steplog_done + 9);
    STEPLOG_CHECK(alarms == wanted);
    struct sigaction is;
    sigaction(kOwn, NULL, &is);
    STEPLOG_CHECK(is.sa_sigaction == on_own);
    sigaction(SIGSYS, NULL, &is);
    STEPLOG_CHECK(is.sa_handler == SIG_IGN);
    steplog_mix((uint64_t)(alarms + own));
    sigprocmask(SIG_SETMASK, &all, NULL);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
