// Timed waits for events that never come: condition variables on two clocks, semaphores, mutexes, rwlocks.
// Each ends with ETIMEDOUT and never early; a mutex wait also if a handler ran meanwhile (POSIX).
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include "steplog.h"

enum { kKinds = 9 };

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, held_pi, own[kKinds];
static pthread_cond_t never[kKinds];
static pthread_rwlock_t taken = PTHREAD_RWLOCK_INITIALIZER;
static sem_t empty, told;
static volatile int over;

static int wait_until(int kind, clockid_t clock, const struct timespec* t) {
  int error;
  switch (kind) {
    case 0:
    case 1:
    case 2:
      pthread_mutex_lock(&own[kind]);
      do {
        error = kind == 2 ? pthread_cond_clockwait(&never[kind], &own[kind], clock, t)
                          : pthread_cond_timedwait(&never[kind], &own[kind], t);
      } while (error == 0);  // spurious wake-ups are allowed
      pthread_mutex_unlock(&own[kind]);
      return error;
    case 3:
      return sem_timedwait(&empty, t) == 0 ? 0 : errno;
    case 4:
      return sem_clockwait(&empty, clock, t) == 0 ? 0 : errno;
    case 5:
      return pthread_mutex_timedlock(&held, t);
    case 6:
      return pthread_mutex_clocklock(&held, clock, t);
    case 7:
      return pthread_mutex_timedlock(&held_pi, t);
    default:
      return pthread_rwlock_timedwrlock(&taken, t);
  }
}

static void* waiter(void* argument) {
  static const clockid_t kClocks[kKinds] = {CLOCK_REALTIME,  CLOCK_MONOTONIC, CLOCK_MONOTONIC,
                                            CLOCK_REALTIME,  CLOCK_MONOTONIC, CLOCK_REALTIME,
                                            CLOCK_MONOTONIC, CLOCK_REALTIME,  CLOCK_REALTIME};
  const int kind = (int)(long)argument;
  uint64_t state = (uint64_t)kind;
  while (!over) {
    struct timespec t, end;
    clock_gettime(kClocks[kind], &t);
    t.tv_nsec += (long)(steplog_random(&state) % 80000000);
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    const int error = wait_until(kind, kClocks[kind], &t);
    clock_gettime(kClocks[kind], &end);
    if (error != ETIMEDOUT) steplog_fail("wait of kind %d: %s", kind, strerror(error));
    if (end.tv_sec < t.tv_sec || (end.tv_sec == t.tv_sec && end.tv_nsec < t.tv_nsec))
      steplog_fail("wait of kind %d: early", kind);
    sem_post(&told);
  }
  return NULL;
}

static void on_signal(int number) { (void)number; }

int main(int argc, char** argv) {
  const struct sigaction action = {.sa_handler = on_signal};
  pthread_t threads[kKinds];
  pthread_condattr_t monotonic;
  pthread_mutexattr_t inherits;
  steplog_open(argc, argv, -1);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutexattr_init(&inherits);
  pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT);
  pthread_mutex_init(&held_pi, &inherits);
  sem_init(&empty, 0, 0), sem_init(&told, 0, 0);
  pthread_mutex_lock(&held), pthread_mutex_lock(&held_pi), pthread_rwlock_rdlock(&taken);
  for (long i = 0; i < kKinds; i++) {
    pthread_mutex_init(&own[i], NULL);
    pthread_cond_init(&never[i], i == 1 ? &monotonic : NULL);
    STEPLOG_CHECK(pthread_create(&threads[i], NULL, waiter, (void*)i) == 0);
  }
  STEPLOG_CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
  while (steplog_done < steplog_steps) {
    for (int i = 0; i < kKinds; i++) {
      for (int kind = 5; kind <= 7; kind++) pthread_kill(threads[kind], SIGUSR2);
      sem_wait(&told);
    }
    steplog_step();
  }
  over = 1;
  for (int i = 0; i < kKinds; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  STEPLOG_CHECK(pthread_mutex_unlock(&held) == 0 && pthread_mutex_unlock(&held_pi) == 0 &&
                pthread_rwlock_unlock(&taken) == 0);
  steplog_mix((uint64_t)steplog_done);
  steplog_ok();
  return 0;
}
