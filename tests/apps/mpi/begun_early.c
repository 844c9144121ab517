// begun_early FILE: after a few steps rank 0 starts a nonblocking barrier; the other ranks start it only when
// FILE exists.
#include <mpi.h>
#include <unistd.h>

#include "steplog.h"

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  steplog_open(argc, argv, rank);
  while (steplog_done < steplog_steps) {
    if (rank != 0 && steplog_done == 3) {
      steplog_at("waits");
      while (access(argv[1], F_OK) != 0) steplog_spin(1000);
    }
    MPI_Request begun;
    MPI_Ibarrier(MPI_COMM_WORLD, &begun);
    if (rank == 0 && steplog_done == 3) steplog_at("begun");
    MPI_Wait(&begun, MPI_STATUS_IGNORE);
    int sum = rank + 1;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    steplog_mix((uint64_t)sum);
    steplog_step();
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
