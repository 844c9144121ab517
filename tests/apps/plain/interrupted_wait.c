// Waits for a semaphore that nobody posts. Each SIGUSR2, whose handler has no SA_RESTART, ends a wait with
// EINTR: a step. Its memory takes a while to be read.
#include <errno.h>
#include <semaphore.h>
#include <signal.h>

#include "steplog.h"

static void on(int number) { (void)number; }

int main(int argc, char** argv) {
  enum { kWords = 25000000 };
  static uint64_t memory[kWords];
  const struct sigaction action = {.sa_handler = on};
  sem_t never;
  steplog_open(argc, argv, -1);
  uint64_t state = 1;
  for (int i = 0; i < kWords; i++) memory[i] = steplog_random(&state);
  STEPLOG_CHECK(sigaction(SIGUSR2, &action, NULL) == 0 && sem_init(&never, 0, 0) == 0);
  while (steplog_done < steplog_steps) {
    steplog_at("wait");
    STEPLOG_CHECK(sem_wait(&never) == -1 && errno == EINTR);
    steplog_mix(memory[steplog_done]);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
