/* A synchronous send must not return before its receive has begun: rank 1 makes rank 0 wait, and tells it
 * when it began to receive. Two ranks; rank 0 prints `early` for each send that returned too early, and
 * `done`. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

enum { kRounds = 12, kPause = 200 * 1000 * 1000 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char** argv) {
  int rank, token = 7;
  double began = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int round = 0; round < kRounds; ++round) {
    if (rank == 0) {
      MPI_Ssend(&token, 1, MPI_INT, 1, round, MPI_COMM_WORLD);
      const double returned = now();
      MPI_Recv(&began, 1, MPI_DOUBLE, 1, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (returned < began) printf("early by %.3f s\n", began - returned);
    } else if (rank == 1) {
      const struct timespec pause = {0, kPause};
      nanosleep(&pause, NULL);
      began = now();
      MPI_Recv(&token, 1, MPI_INT, 0, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(&began, 1, MPI_DOUBLE, 0, round, MPI_COMM_WORLD);
    }
  }
  if (rank == 0) printf("done\n");
  MPI_Finalize();
  return 0;
}
