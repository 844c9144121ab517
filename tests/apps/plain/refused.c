// Holds something that cannot be saved in the first half of the steps, and releases it for the second:
// refused child|pipe|socket|timer|timerfd|signalfd|eventfd|epoll|shared|sharedfile ...
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "refused.h"

static pid_t child;
static int fds[2] = {-1, -1};
static timer_t timer;
static void* shared;

static void take(const char* what) {
  if (!strcmp(what, "child")) {
    child = fork();
    if (child == 0)
      for (;;) pause();
    STEPLOG_CHECK(child > 0);
  } else if (!strcmp(what, "pipe")) {
    STEPLOG_CHECK(!pipe(fds));
  } else if (!strcmp(what, "socket")) {
    STEPLOG_CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
  } else if (!strcmp(what, "timer")) {
    struct itimerspec far = {.it_value = {.tv_sec = 3600}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    STEPLOG_CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer));
    STEPLOG_CHECK(!timer_settime(timer, 0, &far, NULL));
  } else if (!strcmp(what, "timerfd")) {
    STEPLOG_CHECK((fds[0] = timerfd_create(CLOCK_MONOTONIC, 0)) >= 0);
  } else if (!strcmp(what, "signalfd")) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    STEPLOG_CHECK((fds[0] = signalfd(-1, &set, 0)) >= 0);
  } else if (!strcmp(what, "eventfd")) {
    STEPLOG_CHECK((fds[0] = eventfd(0, 0)) >= 0);
  } else if (!strcmp(what, "epoll")) {
    STEPLOG_CHECK((fds[0] = epoll_create1(0)) >= 0);
  } else if (!strcmp(what, "shared")) {
    shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    STEPLOG_CHECK(shared != MAP_FAILED);
    memset(shared, 1, 8192);
  } else if (!strcmp(what, "sharedfile")) {
    char name[] = "/tmp/refused-XXXXXX";
    int fd = mkstemp(name);
    STEPLOG_CHECK(fd >= 0 && !ftruncate(fd, 8192));
    unlink(name);
    shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    STEPLOG_CHECK(shared != MAP_FAILED);
  } else {
    steplog_fail("unknown: %s", what);
  }
}

static void let_go(const char* what) {
  if (!strcmp(what, "child")) {
    int status;
    kill(child, SIGKILL);
    STEPLOG_CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  } else if (!strcmp(what, "timer")) {
    STEPLOG_CHECK(!timer_delete(timer));
  } else if (shared) {
    munmap(shared, 8192);
  } else {
    close(fds[0]);
    if (fds[1] >= 0) close(fds[1]);
  }
}

int main(int argc, char** argv) { return refused_main(argc, argv, take, let_go); }
