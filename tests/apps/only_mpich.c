// Uses MPI 4's large-count functions, which MPICH 4 has and Open MPI 4 does not.
#include <mpi.h>

#include "steplog.h"

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  while (steplog_done < steplog_steps) {
    long in = steplog_done + rank, sum = 0;
    MPI_Allreduce_c(&in, &sum, (MPI_Count)1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    STEPLOG_CHECK(sum == steplog_done * ranks + ranks * (ranks - 1) / 2);
    steplog_mix((uint64_t)sum);
    steplog_step();
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
