// Threads that are made and joined all the time, some with their own stacks; threads that make threads.
#include <pthread.h>
#include <unistd.h>

#include "steplog.h"

enum { kAtOnce = 4, kStack = 128 << 10 };

static _Thread_local uint64_t own = 77;  // fresh in each new thread
static char stack[kStack] __attribute__((aligned(4096)));

static void* leaf(void* argument) {
  STEPLOG_CHECK(own == 77);
  for (int i = 0; i < 1000; i++) own = steplog_random((uint64_t*)argument);
  return (void*)own;
}

static void* branch(void* argument) {
  uint64_t state = (uint64_t)argument;
  void* result;
  pthread_t thread;
  STEPLOG_CHECK(pthread_create(&thread, NULL, leaf, &state) == 0);
  STEPLOG_CHECK(pthread_join(thread, &result) == 0);
  STEPLOG_CHECK(own == 77);
  return result;
}

static void* endless(void* argument) {  // only spins
  for (volatile int* over = argument; !*over;) branch((void*)5);
  return NULL;
}

static void* with_pauses(void* argument) {
  for (volatile int* over = argument; !*over; usleep(100)) branch((void*)5);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kAtOnce], others[2];
  pthread_attr_t attributes;
  volatile int over = 0;
  steplog_open(argc, argv, -1);
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, sizeof stack);
  for (int i = 0; i < 2; i++)
    STEPLOG_CHECK(pthread_create(&others[i], NULL, i == 0 ? endless : with_pauses, (void*)&over) == 0);
  while (steplog_done < steplog_steps) {
    for (long i = 0; i < kAtOnce; i++)
      STEPLOG_CHECK(pthread_create(&threads[i], i == 0 ? &attributes : NULL, branch,
                                   (void*)(steplog_done * 10 + i)) == 0);
    for (int i = 0; i < kAtOnce; i++) {
      void* result;
      STEPLOG_CHECK(pthread_join(threads[i], &result) == 0);
      steplog_mix((uint64_t)result);
    }
    steplog_step();
  }
  over = 1;
  for (int i = 0; i < 2; i++) STEPLOG_CHECK(pthread_join(others[i], NULL) == 0);
  steplog_ok();
  return 0;
}
