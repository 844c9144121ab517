// Cancelled threads: blocked in a condition wait, in nanosleep, in pause, in a semaphore; at an explicit
// cancellation point; and asynchronously. Cleanup handlers run, with the mutex locked again, and the result
// shows it.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "steplog.h"

enum { kKinds = 6 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t ready, nothing;
static long cleaned[kKinds];

static void clean(void* argument) {
  const long kind = (long)argument;
  if (kind == 0) {
    STEPLOG_CHECK(pthread_mutex_trylock(&mutex) != 0);
    STEPLOG_CHECK(pthread_mutex_unlock(&mutex) == 0);
  }
  cleaned[kind]++;
}

static void* victim(void* argument) {
  const long kind = (long)argument;
  const struct timespec long_time = {1000, 0};
  volatile long spins = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_cleanup_push(clean, argument);
  if (kind == 0) pthread_mutex_lock(&mutex);
  sem_post(&ready);
  usleep(3000);  // cancellation is disabled here
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  switch (kind) {
    case 0:
      for (;;) pthread_cond_wait(&never, &mutex);
    case 1:
      for (;;) nanosleep(&long_time, NULL);
    case 2:
      for (;;) pause();
    case 3:
      for (;; spins++) pthread_testcancel();
    case 4:
      pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
      for (;;) spins++;
    default:
      for (;;) sem_wait(&nothing);
  }
  pthread_cleanup_pop(0);
  return NULL;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  sem_init(&ready, 0, 0), sem_init(&nothing, 0, 0);
  while (steplog_done < steplog_steps) {
    pthread_t threads[kKinds];
    for (long i = 0; i < kKinds; i++) STEPLOG_CHECK(pthread_create(&threads[i], NULL, victim, (void*)i) == 0);
    for (int i = 0; i < kKinds; i++) sem_wait(&ready);
    if (steplog_done % 2) usleep(6000);
    for (int i = 0; i < kKinds; i++) STEPLOG_CHECK(pthread_cancel(threads[i]) == 0);
    for (int i = 0; i < kKinds; i++) {
      void* result;
      STEPLOG_CHECK(pthread_join(threads[i], &result) == 0);
      STEPLOG_CHECK(result == PTHREAD_CANCELED);
    }
    steplog_step();
    for (int i = 0; i < kKinds; i++) STEPLOG_CHECK(cleaned[i] == steplog_done);
  }
  steplog_mix((uint64_t)steplog_done);
  steplog_ok();
  return 0;
}
