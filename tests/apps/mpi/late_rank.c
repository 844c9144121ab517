/* One rank frees a communicator and ends long after the others. The output says whether
 * MPI_Comm_disconnect waits for it; no rank may report errors at the end. The driver compares a native run
 * with one under CropDL. Two ranks; rank 0 prints. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { kLate = 1300 * 1000, kLeastLate = 100 * 1000 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Whether rank 0's call ended only after the late rank had begun its own. */
static int waits(int rank, useconds_t late) {
  MPI_Comm left;
  MPI_Comm_dup(MPI_COMM_WORLD, &left);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0) usleep(late);
  double began = now();
  MPI_Comm_disconnect(&left);
  const double ended = now();
  MPI_Bcast(&began, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
  int waited = ended >= began;
  MPI_Bcast(&waited, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return waited;
}

int main(int argc, char** argv) {
  int rank, waited = 1;
  MPI_Comm freed;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &freed);
  /* Several times: a busy machine may have stopped rank 0 in one. */
  for (useconds_t late = kLeastLate; waited && late < kLate; late *= 3) waited = waits(rank, late);
  if (rank == 0) printf("%s\n", waited ? "waited" : "did not wait");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0) usleep(kLate);
  MPI_Comm_free(&freed);
  MPI_Finalize();
  return 0;
}
