// Logs in each step the highest number of a processor on which one of its two threads runs or may run.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "steplog.h"

static pthread_barrier_t barrier;
static int other_highest;

static int highest(void) {
  cpu_set_t allowed;
  STEPLOG_CHECK(!sched_getaffinity(0, sizeof allowed, &allowed));
  int found = sched_getcpu();
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &allowed) && i > found) found = i;
  return found;
}

static void* other(void* unused) {
  for (;;) {
    pthread_barrier_wait(&barrier);
    other_highest = highest();
    pthread_barrier_wait(&barrier);
  }
  return unused;
}

int main(int argc, char** argv) {
  pthread_t thread;
  steplog_open(argc, argv, -1);
  STEPLOG_CHECK(!pthread_barrier_init(&barrier, NULL, 2) && !pthread_create(&thread, NULL, other, NULL));
  while (steplog_done < steplog_steps) {
    char word[32];
    pthread_barrier_wait(&barrier);
    const int mine = highest();
    pthread_barrier_wait(&barrier);
    snprintf(word, sizeof word, "highest=%d", mine > other_highest ? mine : other_highest);
    steplog_at(word);
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
