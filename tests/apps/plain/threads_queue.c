// Producers and consumers at a bounded queue with condition variables: no item is lost, duplicated, or out of
// its producer's order.
#include <pthread.h>

#include "steplog.h"

enum { kProducers = 3, kConsumers = 3, kRoom = 4, kPerStep = 30 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static pthread_cond_t counted = PTHREAD_COND_INITIALIZER;
static long ring[kRoom], begin, filled, taken[kProducers], consumed;

static void* produce(void* argument) {
  const long me = (long)argument;
  for (long i = 0; i < steplog_steps * kPerStep; i++) {
    pthread_mutex_lock(&mutex);
    while (filled == kRoom) pthread_cond_wait(&not_full, &mutex);
    ring[(begin + filled++) % kRoom] = i * kProducers + me;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

static void* consume(void* argument) {
  uint64_t sum = 0;
  (void)argument;
  for (;;) {
    pthread_mutex_lock(&mutex);
    while (filled == 0) pthread_cond_wait(&not_empty, &mutex);
    const long item = ring[begin];
    begin = (begin + 1) % kRoom, filled--;
    pthread_cond_signal(&not_full);
    if (item >= 0) {
      STEPLOG_CHECK(taken[item % kProducers]++ == item / kProducers);
      if (++consumed % kPerStep == 0) pthread_cond_signal(&counted);
    }
    pthread_mutex_unlock(&mutex);
    if (item < 0) return (void*)sum;
    uint64_t state = (uint64_t)item;
    for (int i = 0; i < 500; i++) sum += steplog_random(&state);
  }
}

int main(int argc, char** argv) {
  pthread_t producers[kProducers], consumers[kConsumers];
  uint64_t sum = 0;
  steplog_open(argc, argv, -1);
  for (long i = 0; i < kProducers; i++)
    STEPLOG_CHECK(pthread_create(&producers[i], NULL, produce, (void*)i) == 0);
  for (long i = 0; i < kConsumers; i++)
    STEPLOG_CHECK(pthread_create(&consumers[i], NULL, consume, NULL) == 0);
  while (steplog_done < steplog_steps) {
    pthread_mutex_lock(&mutex);
    while (consumed < (steplog_done + 1) * kPerStep * kProducers) pthread_cond_wait(&counted, &mutex);
    pthread_mutex_unlock(&mutex);
    steplog_step();
  }
  for (int i = 0; i < kProducers; i++) STEPLOG_CHECK(pthread_join(producers[i], NULL) == 0);
  for (int i = 0; i < kConsumers; i++) {  // one end mark per consumer
    pthread_mutex_lock(&mutex);
    while (filled == kRoom) pthread_cond_wait(&not_full, &mutex);
    ring[(begin + filled++) % kRoom] = -1;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&mutex);
  }
  for (int i = 0; i < kConsumers; i++) {
    void* part;
    STEPLOG_CHECK(pthread_join(consumers[i], &part) == 0);
    sum += (uint64_t)part;
  }
  steplog_mix(sum);
  steplog_ok();
  return 0;
}
