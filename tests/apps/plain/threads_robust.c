// Robust mutexes held over a cut, with and without priority inheritance: the owner unlocks them, or ends
// while it holds them (EOWNERDEAD for threads that wait and for later ones), or leaves one unrecoverable.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "steplog.h"

enum { kMutexes = 4 };  // every second one inherits priorities

static pthread_mutex_t mutexes[kMutexes];
static pthread_barrier_t barrier;

static void hold(long how) {
  for (int i = 0; i < kMutexes; i++) STEPLOG_CHECK(pthread_mutex_lock(&mutexes[i]) == 0);
  pthread_barrier_wait(&barrier);
  usleep(20000);  // cuts come here
  if (how == 0)
    for (int i = 0; i < kMutexes; i++) STEPLOG_CHECK(pthread_mutex_unlock(&mutexes[i]) == 0);
}

static void* owner(void* how) {  // lives for one round
  hold((long)how);
  return NULL;
}

static void* owner_after(void* how) {  // started long before it locks them
  usleep(30000);
  return owner(how);
}

static void* waiter(void* how) {
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 2; i++) {
    const int error = pthread_mutex_lock(&mutexes[i]);
    if (error != (how ? EOWNERDEAD : 0))
      steplog_fail("mutex %d, whose owner %s: %s", i, how ? "died" : "unlocked", strerror(error));
    if (how) STEPLOG_CHECK(pthread_mutex_consistent(&mutexes[i]) == 0);
    STEPLOG_CHECK(pthread_mutex_unlock(&mutexes[i]) == 0);
  }
  return NULL;
}

static void expect_error(int i, int error, int expected) {
  if (error != expected)
    steplog_fail("mutex %d afterwards: %s, expected %s", i, strerror(error), strerror(expected));
}

int main(int argc, char** argv) {
  pthread_t threads[2];
  pthread_mutexattr_t attributes;
  steplog_open(argc, argv, -1);
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_barrier_init(&barrier, NULL, 2);
  while (steplog_done < steplog_steps) {
    const long dies = steplog_done % 2, ruined = dies && steplog_done % 4 == 1;
    for (int i = 0; i < kMutexes; i++) {
      pthread_mutexattr_setprotocol(&attributes, i % 2 ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE);
      pthread_mutex_init(&mutexes[i], &attributes);
    }
    STEPLOG_CHECK(pthread_create(&threads[0], NULL, steplog_done % 3 ? owner : owner_after, (void*)dies) ==
                  0);
    STEPLOG_CHECK(pthread_create(&threads[1], NULL, waiter, (void*)dies) == 0);
    for (int i = 0; i < 2; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 2; i < kMutexes; i++) {  // no thread waited for these
      expect_error(i, pthread_mutex_trylock(&mutexes[i]), dies ? EOWNERDEAD : 0);
      if (dies && !ruined) STEPLOG_CHECK(pthread_mutex_consistent(&mutexes[i]) == 0);
      STEPLOG_CHECK(pthread_mutex_unlock(&mutexes[i]) == 0);
      expect_error(i, pthread_mutex_lock(&mutexes[i]), ruined ? ENOTRECOVERABLE : 0);
      if (!ruined) STEPLOG_CHECK(pthread_mutex_unlock(&mutexes[i]) == 0);
    }
    for (int i = 0; i < kMutexes; i++) STEPLOG_CHECK(pthread_mutex_destroy(&mutexes[i]) == 0);
    steplog_step();
  }
  steplog_mix((uint64_t)steplog_done);
  steplog_ok();
  return 0;
}
