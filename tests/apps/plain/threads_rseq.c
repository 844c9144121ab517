// The processor number that the kernel keeps in each thread's memory (rseq) is the processor on which the
// thread runs.
#define _GNU_SOURCE
#include <linux/rseq.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <unistd.h>

#include "steplog.h"

extern const ptrdiff_t __rseq_offset;
extern const unsigned int __rseq_size;

enum { kThreads = 3 };
static volatile int over;
static volatile long rounds[kThreads + 1];

static void look(long me) {
  const volatile struct rseq* area =
      (const volatile struct rseq*)((char*)__builtin_thread_pointer() + __rseq_offset);
  cpu_set_t all, one;
  STEPLOG_CHECK(!sched_getaffinity(0, sizeof all, &all));
  STEPLOG_CHECK(__rseq_size != 0 && sched_getcpu() >= 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    STEPLOG_CHECK(!sched_setaffinity(0, sizeof one, &one));
    STEPLOG_CHECK((int)area->cpu_id == cpu && sched_getcpu() == cpu);
  }
  STEPLOG_CHECK(!sched_setaffinity(0, sizeof all, &all));
  rounds[me]++;
}

static void* work(void* argument) {
  while (!over) {
    look((long)argument);
    usleep(500);  // leaves the driver some processor time
  }
  return argument;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  steplog_open(argc, argv, -1);
  for (long i = 0; i < kThreads; i++) STEPLOG_CHECK(!pthread_create(&threads[i], NULL, work, (void*)(i + 1)));
  while (steplog_done < steplog_steps) {
    long before = rounds[1];
    look(0);
    while (rounds[1] == before) usleep(100);
    steplog_step();
  }
  over = 1;
  for (int i = 0; i < kThreads; i++) STEPLOG_CHECK(!pthread_join(threads[i], NULL));
  steplog_ok();
  return 0;
}
