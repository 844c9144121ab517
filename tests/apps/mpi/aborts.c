// Ends by abort() between MPI_Init and MPI_Finalize.
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  abort();
  return 3;
}
