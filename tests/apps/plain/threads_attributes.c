// Attributes of a thread: name, scheduling class, nice value, processors, timer slack; and its processor
// times, which never go back.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steplog.h"

enum { kThreads = 4 };

static const int kClasses[kThreads] = {SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_BATCH};
static pthread_barrier_t barrier;
static int processors[2];  // the first and the last available one
static clockid_t clocks[kThreads];

static int64_t as_number(struct timespec t) { return t.tv_sec * 1000000000ll + t.tv_nsec; }

static int64_t time_of(clockid_t clock) {
  struct timespec t;
  STEPLOG_CHECK(clock_gettime(clock, &t) == 0);
  return as_number(t);
}

static int64_t usage(void) {
  struct rusage u;
  getrusage(RUSAGE_THREAD, &u);
  return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000ll +
         (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000ll;
}

static void* work(void* argument) {
  const int me = (int)(long)argument;
  const struct sched_param none = {0};
  char name[32], seen[32];
  cpu_set_t set;
  int64_t last[2] = {0, 0};
  snprintf(name, sizeof name, "worker \"%d\"", me);
  pthread_setname_np(pthread_self(), name);
  STEPLOG_CHECK(sched_setscheduler(0, kClasses[me], &none) == 0);
  STEPLOG_CHECK(setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), me + 1) == 0);
  CPU_ZERO(&set);
  CPU_SET(processors[me % 2], &set);
  STEPLOG_CHECK(pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0);
  STEPLOG_CHECK(prctl(PR_SET_TIMERSLACK, 100000 + me) == 0);
  pthread_getcpuclockid(pthread_self(), &clocks[me]);
  for (long round = 0; round < steplog_steps; round++) {
    pthread_barrier_wait(&barrier);
    for (volatile int i = 0; i < 20000; i++) {
    }
    pthread_getname_np(pthread_self(), seen, sizeof seen);
    STEPLOG_CHECK(!strcmp(seen, name));
    STEPLOG_CHECK(sched_getscheduler((pid_t)syscall(SYS_gettid)) == kClasses[me]);
    STEPLOG_CHECK(getpriority(PRIO_PROCESS, 0) == me + 1);
    STEPLOG_CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1 &&
                  CPU_ISSET(processors[me % 2], &set));
    STEPLOG_CHECK(prctl(PR_GET_TIMERSLACK) == 100000 + me);
    const int64_t before = time_of(CLOCK_THREAD_CPUTIME_ID), now = time_of(clocks[me]),
                  after = time_of(CLOCK_THREAD_CPUTIME_ID);
    STEPLOG_CHECK(before >= last[0] && now >= before && after >= now);
    last[0] = after;
    const int64_t used = usage();
    STEPLOG_CHECK(used >= last[1]);
    last[1] = used;
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  cpu_set_t set;
  int64_t last[kThreads] = {0};
  steplog_open(argc, argv, -1);
  sched_getaffinity(0, sizeof set, &set);
  processors[0] = -1;
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &set)) processors[0] = processors[0] < 0 ? i : processors[0], processors[1] = i;
  pthread_barrier_init(&barrier, NULL, kThreads + 1);
  for (long i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  while (steplog_done < steplog_steps) {
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < kThreads; i++) {
      const int64_t now = time_of(clocks[i]);
      STEPLOG_CHECK(now >= last[i]);
      last[i] = now;
    }
    STEPLOG_CHECK(getpriority(PRIO_PROCESS, 0) == 0 && sched_getscheduler(0) == SCHED_OTHER);
    pthread_barrier_wait(&barrier);
    steplog_step();
  }
  for (int i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  steplog_mix((uint64_t)steplog_done);
  steplog_ok();
  return 0;
}
