// Recursive and error-checking mutexes that threads hold all the time: locked repeatedly by their owner,
// refused to others.
#include <errno.h>
#include <pthread.h>

#include "steplog.h"

enum { kThreads = 3, kDeep = 5 };

static pthread_mutex_t recursive[kThreads], checking[kThreads];  // one per thread
static pthread_barrier_t barrier;

static void* work(void* argument) {
  const long me = (long)argument, next = (me + 1) % kThreads;
  for (int i = 0; i < kDeep; i++) STEPLOG_CHECK(pthread_mutex_lock(&recursive[me]) == 0);
  STEPLOG_CHECK(pthread_mutex_lock(&checking[me]) == 0);
  for (long round = 0; round < steplog_steps; round++) {
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 200; i++) {
      STEPLOG_CHECK(pthread_mutex_lock(&recursive[me]) == 0);
      STEPLOG_CHECK(pthread_mutex_trylock(&recursive[me]) == 0);
      STEPLOG_CHECK(pthread_mutex_lock(&checking[me]) == EDEADLK);
      STEPLOG_CHECK(pthread_mutex_trylock(&checking[me]) == EBUSY);
      STEPLOG_CHECK(pthread_mutex_unlock(&checking[next]) == EPERM);
      STEPLOG_CHECK(pthread_mutex_unlock(&recursive[next]) == EPERM);
      STEPLOG_CHECK(pthread_mutex_trylock(&recursive[next]) == EBUSY);
      for (int k = 0; k < 2; k++) STEPLOG_CHECK(pthread_mutex_unlock(&recursive[me]) == 0);
    }
    pthread_barrier_wait(&barrier);
  }
  for (int i = 0; i < kDeep; i++) STEPLOG_CHECK(pthread_mutex_unlock(&recursive[me]) == 0);
  STEPLOG_CHECK(pthread_mutex_unlock(&recursive[me]) == EPERM);
  STEPLOG_CHECK(pthread_mutex_unlock(&checking[me]) == 0);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  pthread_mutexattr_t attributes;
  steplog_open(argc, argv, -1);
  pthread_mutexattr_init(&attributes);
  pthread_barrier_init(&barrier, NULL, kThreads + 1);
  for (long i = 0; i < kThreads; i++) {
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive[i], &attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checking[i], &attributes);
  }
  for (long i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  while (steplog_done < steplog_steps) {
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    steplog_step();
  }
  for (int i = 0; i < kThreads; i++) {
    STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
    STEPLOG_CHECK(pthread_mutex_destroy(&recursive[i]) == 0 && pthread_mutex_destroy(&checking[i]) == 0);
  }
  steplog_mix((uint64_t)steplog_done);
  steplog_ok();
  return 0;
}
