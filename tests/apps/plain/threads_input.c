// Threads that block in read() and poll() on an empty standard input while main continues.
#include <poll.h>
#include <pthread.h>
#include <sys/select.h>
#include <unistd.h>

#include "steplog.h"

static volatile int waiting[3];

static void* wait_for_input(void* argument) {
  const long how = (long)argument;
  struct pollfd in = {0, POLLIN, 0};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(0, &set);
  waiting[how] = 1;
  if (how == 0 && select(1, &set, NULL, NULL, NULL) >= 0) steplog_fail("there is something to read");
  if (how == 1 && poll(&in, 1, -1) >= 0) steplog_fail("there is something to read");
  if (how == 2 && poll(&in, 1, 1000000000) >= 0) steplog_fail("there is something to read");
  steplog_fail("wait %ld has ended: %m", how);
  return NULL;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  for (long i = 0; i < 3; i++) {
    pthread_t thread;
    STEPLOG_CHECK(pthread_create(&thread, NULL, wait_for_input, (void*)i) == 0);
  }
  while (!waiting[0] || !waiting[1] || !waiting[2]) usleep(100);
  while (steplog_done < steplog_steps) steplog_step();
  steplog_mix((uint64_t)steplog_done);
  steplog_ok();
  return 0;
}
