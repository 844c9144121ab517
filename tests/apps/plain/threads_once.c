// pthread_once in progress, often during a cut, while other threads wait for it; and a function that starts
// again since the first thread was cancelled in it.
#include <pthread.h>
#include <unistd.h>

#include "steplog.h"

enum { kThreads = 4 };

static pthread_once_t once;
static pthread_barrier_t barrier;
static long times;

static void initialize(void) {
  usleep(15000);
  times++;
}

static void stuck(void) {
  for (;;) pause();
}

static void* work(void* argument) {
  for (long round = 0; round < steplog_steps; round++) {
    pthread_barrier_wait(&barrier);
    STEPLOG_CHECK(pthread_once(&once, initialize) == 0);
    STEPLOG_CHECK(times == round + 1);
    pthread_barrier_wait(&barrier);
  }
  return argument;
}

static void* begin_and_be_cancelled(void* argument) {
  pthread_once(&once, stuck);
  return argument;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  steplog_open(argc, argv, -1);
  pthread_barrier_init(&barrier, NULL, kThreads + 1);
  for (int i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
  while (steplog_done < steplog_steps) {
    const pthread_once_t fresh = PTHREAD_ONCE_INIT;
    pthread_t victim;
    void* result;
    once = fresh;
    STEPLOG_CHECK(pthread_create(&victim, NULL, begin_and_be_cancelled, NULL) == 0);
    usleep(2000);
    pthread_barrier_wait(&barrier);
    STEPLOG_CHECK(pthread_cancel(victim) == 0 && pthread_join(victim, &result) == 0);
    pthread_barrier_wait(&barrier);
    STEPLOG_CHECK(times == steplog_done + 1);
    steplog_step();
  }
  for (int i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  steplog_mix((uint64_t)steplog_done);
  steplog_ok();
  return 0;
}
