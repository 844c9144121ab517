// Rank 0 sends the next rank many queued signals that nobody blocks. Each arrives exactly once, also those
// that find the receiver stopped for a checkpoint while the sender still runs.
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "steplog.h"

static volatile long received;

static void count(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  __atomic_fetch_add(&received, info->si_value.sival_int,
                     __ATOMIC_SEQ_CST);  // threads of the MPI take some, too
}

static void send(pid_t to, int value) {
  const union sigval v = {.sival_int = value};
  while (sigqueue(to, SIGRTMIN + 5, v) != 0) {
    STEPLOG_CHECK(errno == EAGAIN);  // the queue is full
    sched_yield();
  }
}

int main(int argc, char** argv) {
  const struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART};
  int rank;
  STEPLOG_CHECK(!sigaction(SIGRTMIN + 5, &action, NULL));
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  steplog_open(argc, argv, rank);
  int receiver = getpid();
  MPI_Bcast(&receiver, 1, MPI_INT, 1, MPI_COMM_WORLD);
  long sent = 0;
  while (steplog_done < steplog_steps) {
    for (int i = 1; rank == 0 && i <= 500; i++) {
      send(receiver, i);
      sent += i;
    }
    MPI_Bcast(&sent, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 1 && received != sent; i++) {
      if (i == 20000) steplog_fail("the signals bring %ld instead of %ld", received, sent);
      usleep(1000);
    }
    MPI_Barrier(MPI_COMM_WORLD);  // until then no signal of the next step comes
    steplog_mix((uint64_t)sent);
    steplog_step();
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
