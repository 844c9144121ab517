// threads thread: MPI_THREAD_MULTIPLE with three more threads that call MPI concurrently with main, on their
// own communicators, in the first half of the steps; then they are joined and main continues alone. Each
// thread always has a pending signal.
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <signal.h>

#include "steplog.h"

enum { kThreads = 3 };
static MPI_Comm comms[kThreads + 1];
static int rank, ranks;
static volatile int leave[kThreads];
static long sums[kThreads];

// One round on a communicator that no other thread uses. Returns whether the threads of all ranks want to
// leave.
static int round_on(MPI_Comm comm, long k, int want_leave) {
  long in = k + rank, out = 0, got = -1;
  int all = 0;
  MPI_Allreduce(&in, &out, 1, MPI_LONG, MPI_SUM, comm);
  STEPLOG_CHECK(out == ranks * k + ranks * (ranks - 1) / 2);
  MPI_Request request;
  MPI_Irecv(&got, 1, MPI_LONG, (rank + ranks - 1) % ranks, 4, comm, &request);
  MPI_Send(&in, 1, MPI_LONG, (rank + 1) % ranks, 4, comm);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  STEPLOG_CHECK(got == k + (rank + ranks - 1) % ranks);
  MPI_Allreduce(&want_leave, &all, 1, MPI_INT, MPI_MIN, comm);
  return all;
}

static void* work(void* argument) {
  const long me = (long)argument;
  sigset_t blocked, pending;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  STEPLOG_CHECK(!pthread_sigmask(SIG_BLOCK, &blocked, NULL) && !pthread_kill(pthread_self(), SIGUSR2));
  for (long k = 0;; k++) {
    STEPLOG_CHECK(!sigpending(&pending) && sigismember(&pending, SIGUSR2));
    struct timespec nap = {0, 500000};
    sums[me] += k;
    if (round_on(comms[me], k, leave[me])) return argument;
    nanosleep(&nap, NULL);
  }
}

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  STEPLOG_CHECK(provided == MPI_THREAD_MULTIPLE);
  pthread_t threads[kThreads];
  for (int i = 0; i <= kThreads; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  for (long i = 0; i < kThreads; i++) STEPLOG_CHECK(!pthread_create(&threads[i], NULL, work, (void*)i));
  while (steplog_done < steplog_steps) {
    if (steplog_done == steplog_steps / 2)
      for (int i = 0; i < kThreads; i++) {
        leave[i] = 1;
        void* result;
        STEPLOG_CHECK(!pthread_join(threads[i], &result) && result == (void*)(long)i);
        STEPLOG_CHECK(sums[i] > 0);
      }
    round_on(comms[kThreads], steplog_done, 0);
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
