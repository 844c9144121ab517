// Threads that sleep: by nanosleep, and by clock_nanosleep, relative and absolute, on several clocks. None
// wakes up early by its own clock, and one long sleep has its full length.
#include <pthread.h>
#include <unistd.h>

#include "steplog.h"

enum { kKinds = 6 };

static const clockid_t kClocks[kKinds] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC, CLOCK_MONOTONIC,
                                          CLOCK_REALTIME,  CLOCK_REALTIME,  CLOCK_BOOTTIME};
static volatile int over;
static volatile long naps[kKinds];

static int64_t time_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void nap(int kind, int64_t length) {
  const clockid_t clock = kClocks[kind];
  const int64_t begin = time_of(clock);
  struct timespec t = {length / 1000000000, length % 1000000000};
  int error;
  if (kind == 0) {
    error = nanosleep(&t, &t);
  } else if (kind % 2 == 1) {
    error = clock_nanosleep(clock, 0, &t, &t);
  } else {
    t.tv_sec = (begin + length) / 1000000000, t.tv_nsec = (begin + length) % 1000000000;
    error = clock_nanosleep(clock, TIMER_ABSTIME, &t, NULL);
  }
  const int64_t took = time_of(clock) - begin;
  if (error != 0) steplog_fail("sleep of kind %d ends with %d", kind, error);
  if (took < length) steplog_fail("sleep of kind %d: %ld us early", kind, (long)(length - took) / 1000);
  naps[kind]++;
}

static void* sleeper(void* argument) {
  uint64_t state = (uint64_t)argument;
  while (!over) nap((int)(long)argument, (int64_t)(steplog_random(&state) % 60000000));
  return NULL;
}

static void* long_sleeper(void* argument) {
  nap((int)(long)argument, steplog_steps * 20000000);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[2 * kKinds];
  steplog_open(argc, argv, -1);
  for (long i = 0; i < kKinds; i++) {
    STEPLOG_CHECK(pthread_create(&threads[i], NULL, sleeper, (void*)i) == 0);
    STEPLOG_CHECK(pthread_create(&threads[kKinds + i], NULL, long_sleeper, (void*)i) == 0);
  }
  while (steplog_done < steplog_steps) {
    const long before = naps[steplog_done % kKinds];
    while (naps[steplog_done % kKinds] == before) usleep(500);
    steplog_step();
  }
  over = 1;
  for (int i = 0; i < 2 * kKinds; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  steplog_mix((uint64_t)steplog_done);
  steplog_ok();
  return 0;
}
