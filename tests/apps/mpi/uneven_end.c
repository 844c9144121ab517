/* Only rank 0 starts nonblocking collectives: an error that both MPIs tolerate in MPI_Finalize. Prints
 * `done` afterwards. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, one = 1, sum = 0;
  MPI_Request request;
  MPI_Comm freed;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &freed);
  if (rank == 0) MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Comm_free(&freed);
  MPI_Finalize();
  if (rank == 0) printf("done\n");
  return 0;
}
