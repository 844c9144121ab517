// Another thread sends two signals in quick succession, repeatedly: the second one's handler, which takes
// long, often interrupts the entry of the first one's. Each handler sees the right sender, and so does a
// thread that waits for a third signal.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "steplog.h"

static pthread_t first, waiting;
static pid_t process;
static volatile long handled, wrong, bad_pid, bad_code, bad_sig;
static volatile int over;
static long all = -1;  // number of signals sent to the waiting thread; -1: not known yet

// The C library reports SI_USER to a waiting thread.
static void look(int sig, const siginfo_t* info) {
  if (info->si_pid != process || (info->si_code != SI_TKILL && info->si_code != SI_USER))
    wrong++, bad_pid = info->si_pid, bad_code = info->si_code, bad_sig = sig;
}

static void at_once(int sig, siginfo_t* info, void* context) {
  (void)context;
  look(sig, info);
  __atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}

static void slowly(int sig, siginfo_t* info, void* context) {
  const double end = steplog_now() + 300e-6;
  (void)context;
  look(sig, info);
  while (steplog_now() < end) continue;
  __atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}

static void* await(void* argument) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 5);
  for (long got = 0; got != __atomic_load_n(&all, __ATOMIC_SEQ_CST); got++) {
    siginfo_t info;
    STEPLOG_CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 5);
    look(SIGRTMIN + 5, &info);
    __atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
  }
  return argument;
}

static void* poke(void* argument) {
  uint64_t random = 1;
  long round = 0;
  for (; !over; round++) {
    while (__atomic_load_n(&handled, __ATOMIC_SEQ_CST) < 3 * round) usleep(20);
    STEPLOG_CHECK(pthread_kill(first, SIGUSR1) == 0);
    for (uint64_t i = steplog_random(&random) % 4000; i > 0; i--) __asm__ volatile("");
    STEPLOG_CHECK(pthread_kill(first, SIGUSR2) == 0 && pthread_kill(waiting, SIGRTMIN + 5) == 0);
  }
  __atomic_store_n(&all, round + 1, __ATOMIC_SEQ_CST);
  STEPLOG_CHECK(pthread_kill(waiting, SIGRTMIN + 5) == 0);
  return argument;
}

int main(int argc, char** argv) {
  struct sigaction action = {.sa_sigaction = at_once, .sa_flags = SA_SIGINFO | SA_RESTART};
  pthread_t thread;
  steplog_open(argc, argv, -1);
  process = getpid();
  first = pthread_self();
  STEPLOG_CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  action.sa_sigaction = slowly;
  STEPLOG_CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 5);
  STEPLOG_CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
  STEPLOG_CHECK(pthread_create(&waiting, NULL, await, NULL) == 0);
  STEPLOG_CHECK(pthread_create(&thread, NULL, poke, NULL) == 0);
  while (steplog_done < steplog_steps) {
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
    if (wrong != 0)
      steplog_fail("%ld wrong: signal %ld from %ld code %ld, own %d", wrong, bad_sig, bad_pid, bad_code,
                   process);
  }
  over = 1;
  STEPLOG_CHECK(pthread_join(thread, NULL) == 0 && pthread_join(waiting, NULL) == 0);
  steplog_ok();
  return 0;
}
