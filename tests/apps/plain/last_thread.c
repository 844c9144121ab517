// Main ends by pthread_exit before the program does: alone, or while another thread makes the last half of
// the steps (--thread 1). atexit functions and stdio's buffers are processed at the end.
#include <pthread.h>
#include <unistd.h>

#include "steplog.h"

static void finish(void) { steplog_ok(); }

static void* go_on(void* until) {
  while (steplog_done < *(long*)until) {
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  return NULL;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  atexit(finish);
  static long half, all;
  int thread = 0;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--thread")) thread = atoi(argv[i + 1]);
  all = steplog_steps, half = thread ? all / 2 : all;
  go_on(&half);
  pthread_t other;
  if (thread) STEPLOG_CHECK(!pthread_create(&other, NULL, go_on, &all) && !pthread_detach(other));
  pthread_exit(NULL);
}
