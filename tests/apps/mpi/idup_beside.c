/* Duplicates stay pending while nonblocking collectives start on the same communicator, at a different
 * time on each rank, and while other communicators and the parent are freed: each duplicate must be the
 * same one on all ranks. Prints `wrong` with each error, and `done`. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

enum { kRounds = 45 };

static int rank, ranks;

static void pause_of(int microseconds) {
  const struct timespec t = {0, microseconds * 1000L};
  nanosleep(&t, NULL);
}

static void check(MPI_Comm comm, const char* what, int round) {
  const int mine = rank + round;
  int sum = -1, expected = 0;
  for (int r = 0; r < ranks; ++r) expected += r + round;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
  if (sum != expected) printf("wrong: %s of round %d: %d, not %d\n", what, round, sum, expected);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int round = 0; round < kRounds; ++round) {
    MPI_Comm parent, other, made;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    const int one = 1;
    int sum = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &parent);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_idup(parent, &made, &requests[0]);
    pause_of(500 + 700 * ((rank + round) % ranks));
    if (round % 3 == 1) MPI_Comm_free(&other);
    pause_of(500);
    if (round % 3 == 2) {
      MPI_Comm_free(&parent);
      MPI_Waitall(1, requests, statuses);
    } else {
      MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, parent, &requests[1]);
      MPI_Waitall(2, requests, statuses);
      if (sum != ranks) printf("wrong: the sum beside the duplicate of round %d: %d\n", round, sum);
      MPI_Comm_free(&parent);
    }
    check(made, "the duplicate", round);
    if (round % 3 != 1) MPI_Comm_free(&other);
    MPI_Comm_free(&made);
  }
  if (rank == 0) printf("done\n");
  MPI_Finalize();
  return 0;
}
