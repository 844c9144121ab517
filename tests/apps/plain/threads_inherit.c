// Mutexes with priority inheritance, held over the cut while other threads wait for them by lock, timedlock
// and trylock; one is robust, one has a condition variable. All threads count what they guard.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "steplog.h"

enum { kThreads = 4, kMutexes = 2, kEach = 6 };

static pthread_mutex_t mutexes[kMutexes], with_condition;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t counts[kMutexes];
static long turn, inside[kMutexes];

static int lock_somehow(pthread_mutex_t* mutex, uint64_t how) {
  struct timespec t;
  clock_gettime(how % 4 == 1 ? CLOCK_REALTIME : CLOCK_MONOTONIC, &t);
  switch (how % 4) {
    case 0:
      return pthread_mutex_lock(mutex);
    case 1:
    case 2:
      t.tv_nsec += how % 3000000;
      if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
      return how % 4 == 1 ? pthread_mutex_timedlock(mutex, &t)
                          : pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &t);
    default:
      return pthread_mutex_trylock(mutex);
  }
}

static void* work(void* argument) {
  const long me = (long)argument;
  uint64_t state = (uint64_t)me;
  for (long round = 0; round < steplog_steps * kEach; round++) {
    const long m = round % kMutexes;
    int error;
    do {
      error = lock_somehow(&mutexes[m], steplog_random(&state));
      if (error == EBUSY) usleep(100);
    } while (error == ETIMEDOUT || error == EBUSY);
    if (error) steplog_fail("mutex %ld: %s", m, strerror(error));
    STEPLOG_CHECK(__atomic_fetch_add(&inside[m], 1, __ATOMIC_SEQ_CST) == 0);
    if (round % 4 == 0) usleep(1000);
    counts[m] += (uint64_t)(round * kThreads + me);
    STEPLOG_CHECK(__atomic_fetch_sub(&inside[m], 1, __ATOMIC_SEQ_CST) == 1);
    STEPLOG_CHECK(pthread_mutex_unlock(&mutexes[m]) == 0);
    if (round % kEach != kEach - 1) continue;
    STEPLOG_CHECK(pthread_mutex_lock(&with_condition) == 0);
    while (turn != round / kEach * (kThreads + 1) + me) pthread_cond_wait(&changed, &with_condition);
    turn++;
    pthread_cond_broadcast(&changed);
    STEPLOG_CHECK(pthread_mutex_unlock(&with_condition) == 0);
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  pthread_mutexattr_t attributes;
  steplog_open(argc, argv, -1);
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
  pthread_mutex_init(&mutexes[0], &attributes);
  pthread_mutex_init(&with_condition, &attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutexes[1], &attributes);
  for (long i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  while (steplog_done < steplog_steps) {
    STEPLOG_CHECK(pthread_mutex_lock(&with_condition) == 0);
    while (turn != steplog_done * (kThreads + 1) + kThreads) pthread_cond_wait(&changed, &with_condition);
    steplog_step();  // the mutexes are held here
    turn++;
    pthread_cond_broadcast(&changed);
    STEPLOG_CHECK(pthread_mutex_unlock(&with_condition) == 0);
  }
  for (int i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  steplog_mix_bytes(counts, sizeof counts);
  steplog_ok();
  return 0;
}
