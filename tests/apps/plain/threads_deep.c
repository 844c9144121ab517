// Recursion down to the last pages of small stacks, one of them in the program's own memory; each level
// checks its local values.
#include <pthread.h>

#include "steplog.h"

enum { kThreads = 3, kStack = 96 << 10, kLevels = 380 };

static char own_stack[kStack] __attribute__((aligned(4096)));
static pthread_barrier_t barrier;
static uint64_t sums[kThreads];

static __attribute__((noinline)) uint64_t descend(int level, uint64_t* state) {
  volatile uint64_t kept[16];
  for (int i = 0; i < 16; i++) kept[i] = steplog_random(state) ^ (uint64_t)level;
  const uint64_t before = kept[level % 16];
  uint64_t sum = level ? descend(level - 1, state) : 0;
  STEPLOG_CHECK(kept[level % 16] == before);
  for (int i = 0; i < 16; i++) sum = sum * 31 + kept[i];
  return sum;
}

static void* work(void* argument) {
  const long me = (long)argument;
  uint64_t state = (uint64_t)me;
  for (long round = 0; round < steplog_steps; round++) {
    for (int i = 0; i < 20; i++) sums[me] += descend(kLevels, &state);
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  pthread_attr_t small;
  steplog_open(argc, argv, -1);
  pthread_barrier_init(&barrier, NULL, kThreads + 1);
  for (long i = 0; i < kThreads; i++) {
    pthread_attr_init(&small);
    if (i == 0)
      pthread_attr_setstack(&small, own_stack, sizeof own_stack);
    else
      pthread_attr_setstacksize(&small, kStack);
    STEPLOG_CHECK(pthread_create(&threads[i], &small, work, (void*)i) == 0);
  }
  while (steplog_done < steplog_steps) {
    pthread_barrier_wait(&barrier);
    steplog_step();
  }
  for (int i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  steplog_mix_bytes(sums, sizeof sums);
  steplog_ok();
  return 0;
}
