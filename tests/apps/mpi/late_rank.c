/* One rank frees a communicator and ends long after the others. The output says whether
 * MPI_Comm_disconnect waits for it; no rank may report errors at the end. The driver compares a native run
 * with one under CropDL. Two ranks; rank 0 prints. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

enum { kLate = 1300 * 1000 };

int main(int argc, char** argv) {
  int rank;
  MPI_Comm left, freed;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &left);
  MPI_Comm_dup(MPI_COMM_WORLD, &freed);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0) usleep(kLate);
  const double began = MPI_Wtime();
  MPI_Comm_disconnect(&left);
  if (rank == 0) printf("%s\n", MPI_Wtime() - began > 0.6 ? "waited" : "did not wait");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0) usleep(kLate);
  MPI_Comm_free(&freed);
  MPI_Finalize();
  return 0;
}
