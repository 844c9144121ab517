// Thread ids: each thread's stays the same and works in tgkill, pthread_kill and the sched_ calls; new
// threads have others. Handlers count signals and check their sender.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steplog.h"

enum { kThreads = 4, kEach = 25 };

static pthread_barrier_t barrier;
static pthread_t threads[kThreads];
static pid_t ids[kThreads], process;
static _Thread_local volatile long got, wrong, bad_pid, bad_code, bad_sig;

static pid_t own_id(void) { return (pid_t)syscall(SYS_gettid); }

static void count(int sig, siginfo_t* info, void* context) {
  (void)sig, (void)context;
  got++;
  if (info->si_pid != process || info->si_code != SI_TKILL)
    wrong++, bad_pid = info->si_pid, bad_code = info->si_code, bad_sig = sig;
}

static void* later(void* argument) {
  (void)argument;
  const pid_t own = own_id();
  for (int i = 0; i < kThreads; i++) STEPLOG_CHECK(own != ids[i] && own != process);
  STEPLOG_CHECK(getpid() == process && sched_getscheduler(own) == SCHED_OTHER);
  STEPLOG_CHECK(syscall(SYS_tgkill, process, own, SIGUSR1) == 0 && got == 1 && wrong == 0);
  return NULL;
}

static void* work(void* argument) {
  const long me = (long)argument, next = (me + 1) % kThreads;
  const pid_t own = ids[me] = own_id();
  for (long round = 0; round < steplog_steps; round++) {
    pthread_barrier_wait(&barrier);
    // Numbers that no process can have.
    STEPLOG_CHECK(kill(1 << 22, 0) == -1 && errno == ESRCH && kill(99999999, 0) == -1 && errno == ESRCH);
    STEPLOG_CHECK(own_id() == own && pthread_equal(pthread_self(), threads[me]));
    for (int i = 0; i < kEach; i++) {
      STEPLOG_CHECK(syscall(SYS_tgkill, process, own, SIGUSR1) == 0);
      STEPLOG_CHECK(got == round * 2 * kEach + 2 * i + 1);
      STEPLOG_CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0);
      STEPLOG_CHECK(got == round * 2 * kEach + 2 * i + 2);
      pthread_kill(threads[next], SIGUSR2);  // pending ones are merged, so not all arrive
      STEPLOG_CHECK(sched_getscheduler(ids[next]) == (next % 2 ? SCHED_BATCH : SCHED_OTHER));
      STEPLOG_CHECK(syscall(SYS_tgkill, process, ids[next], 0) == 0);
    }
    if (wrong != 0)
      steplog_fail("%ld wrong: signal %ld from %ld code %ld, own %d", wrong, bad_sig, bad_pid, bad_code,
                   process);
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

static void ignore(int sig, siginfo_t* info, void* context) {
  (void)sig, (void)context;
  if (info->si_pid != process) wrong++, bad_pid = info->si_pid, bad_code = info->si_code, bad_sig = sig;
}

int main(int argc, char** argv) {
  struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART};
  const struct sched_param none = {0};
  steplog_open(argc, argv, -1);
  process = getpid();
  sigaction(SIGUSR1, &action, NULL);
  action.sa_sigaction = ignore;
  sigaction(SIGUSR2, &action, NULL);
  pthread_barrier_init(&barrier, NULL, kThreads + 1);
  for (long i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  for (int i = 0; i < kThreads; i++) {
    while (((volatile pid_t*)ids)[i] == 0) usleep(100);
    STEPLOG_CHECK(sched_setscheduler(ids[i], i % 2 ? SCHED_BATCH : SCHED_OTHER, &none) == 0);
  }
  while (steplog_done < steplog_steps) {
    pthread_t thread;
    pthread_barrier_wait(&barrier);
    STEPLOG_CHECK(pthread_create(&thread, NULL, later, NULL) == 0);
    STEPLOG_CHECK(pthread_join(thread, NULL) == 0);
    STEPLOG_CHECK(own_id() == process && getpid() == process);
    pthread_barrier_wait(&barrier);
    steplog_step();
  }
  for (int i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  steplog_mix((uint64_t)steplog_done);
  steplog_ok();
  return 0;
}
