// Many threads (--threads N) that wait in a futex for their turn; each step wakes some of them.
#include <pthread.h>

#include "steplog.h"

enum { kMost = 4000, kWoken = 10 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn[kMost], done = PTHREAD_COND_INITIALIZER;
static long count = 500, calls[kMost], answered;
static int over;

static void* wait_for_turn(void* argument) {
  const long me = (long)argument;
  uint64_t own = (uint64_t)me;
  long seen = 0;
  pthread_mutex_lock(&mutex);
  while (!over) {
    if (calls[me] == seen) {
      pthread_cond_wait(&turn[me], &mutex);
      continue;
    }
    seen++, answered++;
    steplog_random(&own);
    pthread_cond_signal(&done);
  }
  pthread_mutex_unlock(&mutex);
  return (void*)own;
}

int main(int argc, char** argv) {
  static pthread_t threads[kMost];
  pthread_attr_t small;
  steplog_open(argc, argv, -1);
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--threads")) count = atol(argv[i + 1]);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  for (long i = 0; i < count; i++) {
    pthread_cond_init(&turn[i], NULL);
    STEPLOG_CHECK(pthread_create(&threads[i], &small, wait_for_turn, (void*)i) == 0);
  }
  while (steplog_done < steplog_steps) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < kWoken; i++) {
      const long who = (steplog_done * 37 + i * 51) % count;
      calls[who]++;
      pthread_cond_signal(&turn[who]);
    }
    while (answered < (steplog_done + 1) * kWoken) pthread_cond_wait(&done, &mutex);
    pthread_mutex_unlock(&mutex);
    steplog_step();
  }
  pthread_mutex_lock(&mutex);
  over = 1;
  for (long i = 0; i < count; i++) pthread_cond_signal(&turn[i]);
  pthread_mutex_unlock(&mutex);
  for (long i = 0; i < count; i++) {
    void* own;
    STEPLOG_CHECK(pthread_join(threads[i], &own) == 0);
    steplog_mix((uint64_t)own);
  }
  steplog_ok();
  return 0;
}
