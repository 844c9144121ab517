// Waits for a semaphore that is never posted, or (first argument "vector") in futex_waitv. Each SIGUSR2,
// whose handler lacks SA_RESTART, ends a wait with EINTR: that is a step. Has enough memory that an image
// takes a while.
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steplog.h"

static void on(int number) { (void)number; }

static int wait_for_vector(void) {
  static uint32_t word;
  struct {  // struct futex_waitv (include/uapi/linux/futex.h)
    uint64_t value, word;
    uint32_t flags, reserved;
  } futex = {0, (uintptr_t)&word, 2 /* FUTEX_32 */ | 128 /* FUTEX_PRIVATE_FLAG */, 0};
  return (int)syscall(449 /* futex_waitv */, &futex, 1, 0, NULL, 0);
}

int main(int argc, char** argv) {
  enum { kWords = 25000000 };
  static uint64_t memory[kWords];
  const struct sigaction action = {.sa_handler = on};
  sem_t never;
  steplog_open(argc, argv, -1);
  uint64_t state = 1;
  for (int i = 0; i < kWords; i++) memory[i] = steplog_random(&state);
  STEPLOG_CHECK(sigaction(SIGUSR2, &action, NULL) == 0 && sem_init(&never, 0, 0) == 0);
  const int by_vector = argc > 1 && !strcmp(argv[1], "vector");
  while (steplog_done < steplog_steps) {
    steplog_at("wait");
    STEPLOG_CHECK((by_vector ? wait_for_vector() : sem_wait(&never)) == -1 && errno == EINTR);
    steplog_mix(memory[steplog_done]);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
