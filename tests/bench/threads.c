/* Threads for measuring stops: --threads N besides main, each of which, by --kind, waits for a condition,
 * sleeps, or computes. Main makes a step about every millisecond. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "../apps/steplog.h"

static const char* kind = "waits";
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void* live(void* unused) {
  if (!strcmp(kind, "waits")) {
    pthread_mutex_lock(&mutex);
    for (;;) pthread_cond_wait(&never, &mutex);
  }
  const struct timespec nap = {0, 20 * 1000 * 1000};
  if (!strcmp(kind, "sleeps"))
    for (;;) nanosleep(&nap, NULL);
  for (volatile unsigned long n = 0;; ++n) {
  }
  return unused;
}

int main(int argc, char** argv) {
  int threads = 0;
  for (int i = 1; i + 1 < argc; ++i) {
    if (!strcmp(argv[i], "--threads")) threads = atoi(argv[i + 1]);
    if (!strcmp(argv[i], "--kind")) kind = argv[i + 1];
  }
  steplog_open(argc, argv, 0);
  for (int i = 0; i < threads; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, live, NULL) != 0) return 1;
  }
  while (steplog_done < steplog_steps) {
    const struct timespec nap = {0, 1000 * 1000};
    nanosleep(&nap, NULL);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
