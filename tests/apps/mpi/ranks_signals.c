// Rank 0 sends rank 1 queued signals that nobody blocks, from the function of a reduction: until that
// returns, rank 0 runs on, while a checkpoint has stopped rank 1. Each signal arrives exactly once.
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "steplog.h"

static int receiver;
static volatile long received;
static long sent;

static void count(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  // Threads of the MPI take some, too.
  __atomic_fetch_add(&received, info->si_value.sival_int, __ATOMIC_SEQ_CST);
}

static void send(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)in, (void)inout, (void)length, (void)type;
  for (int i = 1; i <= 200; i++) {
    const union sigval value = {.sival_int = i};
    while (sigqueue(receiver, SIGRTMIN + 5, value) != 0) {
      STEPLOG_CHECK(errno == EAGAIN);  // the queue is full
      sched_yield();
    }
    sent += i;
    usleep(150);
  }
}

static void wait_for_signals(void) {
  for (int i = 0; received != sent; i++) {
    if (i == 20000) steplog_fail("the signals bring %ld instead of %ld", received, sent);
    usleep(1000);
  }
}

int main(int argc, char** argv) {
  const struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART};
  int rank, one = 1, two = 2;
  MPI_Op operation;
  STEPLOG_CHECK(!sigaction(SIGRTMIN + 5, &action, NULL));
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  steplog_open(argc, argv, rank);
  receiver = getpid();
  MPI_Bcast(&receiver, 1, MPI_INT, 1, MPI_COMM_WORLD);
  MPI_Op_create(send, 1, &operation);
  while (steplog_done < steplog_steps) {
    if (rank == 0) {
      MPI_Reduce_local(&one, &two, 1, MPI_INT, operation);
      MPI_Send(&sent, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(&one, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(&sent, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      wait_for_signals();
      MPI_Send(&one, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);  // only then come the next ones
    }
    steplog_mix((uint64_t)sent);
    steplog_step();
  }
  steplog_ok();
  MPI_Op_free(&operation);
  MPI_Finalize();
  return 0;
}
