// Threads that start children and wait for them, two at a time: posix_spawn, fork and system. (While a child
// lives, checkpoints are refused.)
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steplog.h"

static pthread_barrier_t barrier;
extern char** environ;

static void wait_for(pid_t child, int expected) {
  int status;
  STEPLOG_CHECK(child > 0 && waitpid(child, &status, 0) == child);
  STEPLOG_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == expected);
}

static void* start_children(void* argument) {
  for (long round = 0; round < steplog_steps; round++) {
    pthread_barrier_wait(&barrier);
    if (round % 4 < 2) {
      char* const arguments[] = {"sh", "-c", "exit 7", NULL};
      pid_t child = 0;
      STEPLOG_CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
      wait_for(child, 7);
    } else if (round % 4 == 2) {
      const pid_t child = fork();
      if (child == 0) _exit(argument ? 8 : 9);
      wait_for(child, argument ? 8 : 9);
    } else {
      STEPLOG_CHECK(system("exit 5") == 5 << 8);
    }
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[2];
  steplog_open(argc, argv, -1);
  pthread_barrier_init(&barrier, NULL, 3);
  for (long i = 0; i < 2; i++)
    STEPLOG_CHECK(pthread_create(&threads[i], NULL, start_children, (void*)i) == 0);
  while (steplog_done < steplog_steps) {
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    steplog_step();
  }
  for (int i = 0; i < 2; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  steplog_mix((uint64_t)steplog_done);
  steplog_ok();
  return 0;
}
