// Detached threads come and go. Each makes its successor before it ends; the program waits for them only by a
// semaphore.
#include <pthread.h>
#include <semaphore.h>

#include "steplog.h"

enum { kChains = 4 };

static pthread_attr_t detached;
static sem_t ended;
static uint64_t sums[kChains];
static long generations[kChains];

static void* live(void* argument) {
  const long me = (long)argument;
  uint64_t state = sums[me] + (uint64_t)me;
  for (int i = 0; i < 1000; i++) sums[me] = steplog_random(&state);
  if (++generations[me] % 10 == 0) sem_post(&ended);
  if (generations[me] == steplog_steps * 10) return NULL;
  pthread_t next;
  int error = pthread_create(&next, &detached, live, argument);
  if (error != 0) steplog_fail("pthread_create: %s", strerror(error));
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t thread;
  steplog_open(argc, argv, -1);
  sem_init(&ended, 0, 0);
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  for (long i = 0; i < kChains; i++) {
    STEPLOG_CHECK(pthread_create(&thread, NULL, live, (void*)i) == 0);
    STEPLOG_CHECK(pthread_detach(thread) == 0);
  }
  while (steplog_done < steplog_steps) {
    for (int i = 0; i < kChains; i++) STEPLOG_CHECK(sem_wait(&ended) == 0);
    steplog_step();
  }
  steplog_mix_bytes(sums, sizeof sums);
  steplog_ok();
  return 0;
}
