// The main thread ends by pthread_exit while others continue. The last one ends the process: --end return,
// exit or group (exit() while another thread still waits). Main ends with floating-point traps enabled.
#define _GNU_SOURCE
#include <fenv.h>
#include <pthread.h>
#include <unistd.h>

#include "steplog.h"

enum { kThreads = 3 };

static pthread_t first, threads[kThreads];
static pthread_barrier_t barrier;
static uint64_t sums[kThreads];
static const char* how = "return";
static int told;

static void at_end(void) {
  STEPLOG_CHECK(told == 1);
  steplog_ok();
}

static void* forever(void* argument) {
  for (;;) pause();
  return argument;
}

static void* work(void* argument) {
  const long me = (long)argument;
  if (me == 0) {
    void* result;
    STEPLOG_CHECK(pthread_join(first, &result) == 0 && result == (void*)4711);
  }
  for (long round = 0; round < steplog_steps; round++) {
    uint64_t state = sums[me] + (uint64_t)me;
    for (int i = 0; i < 10000; i++) sums[me] = steplog_random(&state);
    pthread_barrier_wait(&barrier);
    if (me == 0) steplog_step();
    pthread_barrier_wait(&barrier);
  }
  if (me != 0) return NULL;
  for (int i = 1; i < kThreads; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  steplog_mix_bytes(sums, sizeof sums);
  told = 1;
  if (strcmp(how, "return")) exit(0);
  return NULL;  // for the last thread the C library calls exit(0)
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--end")) how = argv[i + 1];
  atexit(at_end);
  first = pthread_self();
  pthread_barrier_init(&barrier, NULL, kThreads);
  for (long i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  if (!strcmp(how, "group")) {
    pthread_t waits;
    STEPLOG_CHECK(pthread_create(&waits, NULL, forever, NULL) == 0);
  }
  feenableexcept(FE_ALL_EXCEPT);
  pthread_exit((void*)4711);
}
