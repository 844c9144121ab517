// Spends most of its time in a signal handler on the alternate stack, so that cuts come there.
#define _GNU_SOURCE
#include <signal.h>

#include "steplog.h"

static char alternate[256 * 1024];
static volatile long inside;

static void handle(int number) {
  (void)number;
  volatile long before = steplog_done;
  steplog_spin(steplog_pace);
  STEPLOG_CHECK(before == steplog_done);
  inside++;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
  sigaltstack(&stack, NULL);
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR2, &action, NULL);
  long pace = steplog_pace;
  while (steplog_done < steplog_steps) {
    steplog_pace = pace;
    raise(SIGUSR2);
    STEPLOG_CHECK(inside == steplog_done + 1);
    steplog_mix((uint64_t)inside);
    steplog_pace = 0;
    steplog_step();
  }
  steplog_ok();
  return 0;
}
