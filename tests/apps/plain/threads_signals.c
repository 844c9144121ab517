// Signals of threads: each has its own mask, pending blocked signals (with values, in order), and an
// alternate stack on which a handler runs during a cut.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include "steplog.h"

enum { kThreads = 3, kQueued = 5, kStack = 64 << 10 };

static pthread_barrier_t barrier;
static pthread_t threads[kThreads];
static _Thread_local volatile long values[kQueued], got;
static _Thread_local char* alternate;
static _Thread_local uint64_t on_it;

static void take(int sig, siginfo_t* info, void* context) {
  (void)context, (void)sig;
  if (got < kQueued) values[got] = info->si_value.sival_int;
  got++;
}

static void stay(int sig) {
  char here = (char)sig;
  STEPLOG_CHECK(&here >= alternate && &here < alternate + kStack);
  uint64_t state = on_it;
  steplog_spin(1500);
  usleep(1000);
  for (int i = 0; i < 1000; i++) on_it = steplog_random(&state);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  STEPLOG_CHECK(sigismember(&mask, SIGUSR2) && sigismember(&mask, SIGHUP) && !sigismember(&mask, SIGUSR1));
}

static void* work(void* argument) {
  const long me = (long)argument;
  sigset_t mask, now, pending;
  alternate = malloc(kStack);
  const stack_t stack = {alternate, 0, kStack};
  stack_t told;
  sigaltstack(&stack, NULL);
  sigemptyset(&mask);
  sigaddset(&mask, SIGRTMIN + 1), sigaddset(&mask, SIGALRM + (int)me);
  pthread_sigmask(SIG_BLOCK, &mask, NULL);
  for (long round = 0; round < steplog_steps; round++) {
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < kQueued; i++)
      STEPLOG_CHECK(pthread_sigqueue(threads[(me + 1) % kThreads], SIGRTMIN + 1,
                                     (union sigval){.sival_int = (int)(round * 10 + i)}) == 0);
    pthread_kill(pthread_self(), SIGALRM + (int)me);  // sent once, stays pending
    pthread_barrier_wait(&barrier);
    pthread_kill(pthread_self(), SIGUSR2);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int sig = 1; sig < 32; sig++) STEPLOG_CHECK(sigismember(&now, sig) == (sig == SIGALRM + (int)me));
    sigpending(&pending);
    STEPLOG_CHECK(sigismember(&pending, SIGALRM + (int)me) && sigismember(&pending, SIGRTMIN + 1) &&
                  got == 0);
    sigaltstack(NULL, &told);
    STEPLOG_CHECK(told.ss_sp == alternate && told.ss_size == kStack && told.ss_flags == 0);
    sigset_t open = now;
    sigdelset(&open, SIGRTMIN + 1);
    pthread_sigmask(SIG_SETMASK, &open, NULL);
    pthread_sigmask(SIG_SETMASK, &now, NULL);
    STEPLOG_CHECK(got == kQueued);
    for (int i = 0; i < kQueued; i++) STEPLOG_CHECK(values[i] == round * 10 + i);
    got = 0;
    pthread_barrier_wait(&barrier);
  }
  return (void*)on_it;
}

int main(int argc, char** argv) {
  struct sigaction action = {.sa_sigaction = take, .sa_flags = SA_SIGINFO};
  steplog_open(argc, argv, -1);
  sigaction(SIGRTMIN + 1, &action, NULL);
  action.sa_handler = stay, action.sa_flags = SA_ONSTACK;
  sigaddset(&action.sa_mask, SIGHUP);
  sigaction(SIGUSR2, &action, NULL);
  pthread_barrier_init(&barrier, NULL, kThreads + 1);
  for (long i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  while (steplog_done < steplog_steps) {
    for (int i = 0; i < 3; i++) pthread_barrier_wait(&barrier);
    steplog_step();
  }
  for (int i = 0; i < kThreads; i++) {
    void* result;
    STEPLOG_CHECK(pthread_join(threads[i], &result) == 0);
    steplog_mix((uint64_t)result);
  }
  steplog_ok();
  return 0;
}
