// Threads that meet at a barrier in every round: each sees what the others wrote before, and exactly one gets
// the serial-thread result.
#include <pthread.h>

#include "steplog.h"

enum { kThreads = 5, kRounds = 40 };

static pthread_barrier_t barrier;
static uint64_t values[2][kThreads];
static long serial;

static void round_of(long me, long round) {
  const uint64_t* old = values[(round + 1) % 2];
  uint64_t state = old[me] ^ old[(me + 1) % kThreads] * 31 ^ old[(me + kThreads - 1) % kThreads] * 37;
  for (int i = 0; i < 300; i++) values[round % 2][me] = steplog_random(&state);
  if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
    __atomic_fetch_add(&serial, 1, __ATOMIC_SEQ_CST);
}

static void* work(void* argument) {
  for (long round = 0; round < steplog_steps * kRounds; round++) round_of((long)argument, round);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  steplog_open(argc, argv, -1);
  pthread_barrier_init(&barrier, NULL, kThreads);
  for (long i = 1; i < kThreads; i++) STEPLOG_CHECK(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  for (long round = 0; round < steplog_steps * kRounds; round++) {
    round_of(0, round);
    if (round % kRounds == kRounds - 1) steplog_step();
  }
  for (int i = 1; i < kThreads; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  STEPLOG_CHECK(serial == steplog_steps * kRounds);
  steplog_mix_bytes(values, sizeof values);
  steplog_ok();
  return 0;
}
