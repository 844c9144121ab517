// Four threads compute independently, and under a mutex in turn, while the main thread waits for them and
// makes the steps.
#include <pthread.h>

#include "steplog.h"

enum { kThreads = 4 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long turn;            // the thread whose turn it is
static uint64_t shared = 1;  // the result depends on the order
static _Thread_local uint64_t own;

static void* work(void* argument) {
  long me = (long)argument;
  uint64_t state = (uint64_t)me;
  own = 0;
  for (long round = 0; round < steplog_steps; round++) {
    for (int i = 0; i < 20000; i++) own ^= steplog_random(&state);
    pthread_mutex_lock(&mutex);
    while (turn != round * kThreads + me) pthread_cond_wait(&changed, &mutex);
    shared = shared * 31 + own;
    turn++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
  }
  return (void*)own;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  steplog_open(argc, argv, -1);
  for (long i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  while (steplog_done < steplog_steps) {
    pthread_mutex_lock(&mutex);
    while (turn < (steplog_done + 1) * kThreads) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    steplog_step();
  }
  for (int i = 0; i < kThreads; i++) {
    void* result;
    STEPLOG_CHECK(pthread_join(threads[i], &result) == 0);
    steplog_mix((uint64_t)result);
  }
  steplog_mix(shared);
  steplog_ok();
  return 0;
}
