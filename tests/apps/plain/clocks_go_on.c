// Monotonic clocks never go back, by vDSO or system call, over any number of restarts: time, processor time,
// usage, times() and sysinfo(). Processor time used before a restart counts. A wait until an absolute time of
// such a clock has its full length.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <unistd.h>

#include "steplog.h"

static double seconds(const struct timespec* t) { return (double)t->tv_sec + 1e-9 * (double)t->tv_nsec; }

static const clockid_t forward[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,      CLOCK_MONOTONIC_COARSE,
                                    CLOCK_BOOTTIME,  CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
enum { kClocks = sizeof forward / sizeof *forward };

static double now(clockid_t clock) {
  struct timespec t;
  STEPLOG_CHECK(!clock_gettime(clock, &t) && t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
  return seconds(&t);
}

static void waits(void) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_BOOTTIME};
  for (int i = 0; i < 2; i++) {
    struct timespec until;
    clock_gettime(clocks[i], &until);
    double begin = seconds(&until);
    until.tv_nsec += 5000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    STEPLOG_CHECK(!clock_nanosleep(clocks[i], TIMER_ABSTIME, &until, NULL));
    double lasted = now(clocks[i]) - begin;
    if (lasted < 0.005) steplog_fail("a wait of 5 ms lasted %.6f s", lasted);
  }
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  double begin = seconds(&until);
  until.tv_nsec += 5000000;
  if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
  pthread_mutex_lock(&mutex);
  int result;
  while (!(result = pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until)))
    ;
  pthread_mutex_unlock(&mutex);
  double lasted = now(CLOCK_MONOTONIC) - begin;
  if (result != ETIMEDOUT || lasted < 0.005)
    steplog_fail("a wait for a condition: %d after %.6f s", result, lasted);
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  double last[kClocks] = {0}, last_usage = 0, last_clock = 0;
  clock_t last_times = 0, last_ticks = 0;
  long last_faults = 0, last_uptime = 0;
  while (steplog_done < steplog_steps) {
    for (int i = 0; i < kClocks; i++) {
      struct timespec direct;
      double by_vdso = now(forward[i]);
      STEPLOG_CHECK(!syscall(SYS_clock_gettime, forward[i], &direct));
      if (by_vdso < last[i])
        steplog_fail("clock %d went from %.9f back to %.9f", forward[i], last[i], by_vdso);
      if (seconds(&direct) < by_vdso)
        steplog_fail("clock %d by the system call went from %.9f back to %.9f", forward[i], by_vdso,
                     seconds(&direct));
      last[i] = seconds(&direct);
    }
    struct rusage usage;
    STEPLOG_CHECK(!getrusage(RUSAGE_SELF, &usage));
    double used = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                  1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    if (used < last_usage - 1e-3 || usage.ru_minflt < last_faults)
      steplog_fail("usage went from %.6f s, %ld faults back to %.6f s, %ld", last_usage, last_faults, used,
                   usage.ru_minflt);
    last_usage = used, last_faults = usage.ru_minflt;
    double worked = (double)clock() / CLOCKS_PER_SEC;
    if (worked < last_clock) steplog_fail("clock() went from %.6f back to %.6f", last_clock, worked);
    last_clock = worked;
    struct tms all;
    clock_t ticks = times(&all);
    if (ticks < last_times || all.tms_utime < last_ticks - 1) steplog_fail("times() went back");
    last_times = ticks, last_ticks = all.tms_utime;
    struct sysinfo machine;
    double since_boot = now(CLOCK_BOOTTIME);
    STEPLOG_CHECK(!sysinfo(&machine));
    if (machine.uptime < last_uptime || (double)machine.uptime < since_boot)
      steplog_fail("uptime went from %ld s back to %ld s; CLOCK_BOOTTIME was %.9f s", last_uptime,
                   machine.uptime, since_boot);
    last_uptime = machine.uptime;
    waits();
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
