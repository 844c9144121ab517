// Readers and writers at rwlocks of either preference, and two threads that pass a token by semaphores.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>

#include "steplog.h"

enum { kReaders = 3, kWriters = 2, kChanges = 20 };

static pthread_rwlock_t lock;
static sem_t ping, pong, changed;
static uint64_t pair[2];
static long changes, token;
static int over;

static void* reader(void* argument) {
  (void)argument;
  while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
    pthread_rwlock_rdlock(&lock);
    for (int i = 0; i < 50; i++)
      STEPLOG_CHECK(((volatile uint64_t*)pair)[0] == ~((volatile uint64_t*)pair)[1]);
    pthread_rwlock_unlock(&lock);
  }
  return NULL;
}

static void* writer(void* argument) {
  (void)argument;
  for (long i = 0; i < steplog_steps * kChanges; i++) {
    pthread_rwlock_wrlock(&lock);
    uint64_t state = (uint64_t)changes++;
    for (int k = 0; k < 100; k++) pair[0] += steplog_random(&state);
    pair[1] = ~pair[0];
    pthread_rwlock_unlock(&lock);
    sem_post(&changed);
  }
  return NULL;
}

static void* answer(void* argument) {
  (void)argument;
  for (;;) {
    STEPLOG_CHECK(sem_wait(&ping) == 0);
    if (token < 0) return NULL;
    token = token * 5 + 1;
    sem_post(&pong);
  }
}

int main(int argc, char** argv) {
  pthread_t threads[kReaders + kWriters + 1];
  pthread_rwlockattr_t attributes;
  int n = 0;
  steplog_open(argc, argv, -1);
  pthread_rwlockattr_init(&attributes);
  pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_init(&lock, &attributes);
  sem_init(&ping, 0, 0), sem_init(&pong, 0, 0), sem_init(&changed, 0, 0);
  pair[1] = ~0ull;
  for (int i = 0; i < kReaders; i++) STEPLOG_CHECK(pthread_create(&threads[n++], NULL, reader, NULL) == 0);
  for (int i = 0; i < kWriters; i++) STEPLOG_CHECK(pthread_create(&threads[n++], NULL, writer, NULL) == 0);
  STEPLOG_CHECK(pthread_create(&threads[n++], NULL, answer, NULL) == 0);
  while (steplog_done < steplog_steps) {
    for (int i = 0; i < kChanges * kWriters; i++) STEPLOG_CHECK(sem_wait(&changed) == 0);
    token = steplog_done;
    sem_post(&ping);
    STEPLOG_CHECK(sem_wait(&pong) == 0);
    STEPLOG_CHECK(token == steplog_done * 5 + 1);
    steplog_step();
  }
  over = 1, token = -1;
  sem_post(&ping);
  for (int i = 0; i < n; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  steplog_mix(pair[0]);
  steplog_ok();
  return 0;
}
