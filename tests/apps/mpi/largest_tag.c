// Rank 0 asks once for the largest tag, and all ranks use it.
#include <mpi.h>

#include "steplog.h"

int main(int argc, char** argv) {
  int rank, ranks, tag = 0, flag;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  if (rank == 0) {
    int* largest;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &flag);
    STEPLOG_CHECK(flag);
    tag = *largest;
  }
  MPI_Bcast(&tag, 1, MPI_INT, 0, MPI_COMM_WORLD);
  while (steplog_done < steplog_steps) {
    int out = (int)steplog_done, in = -1;
    MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % ranks, tag, &in, 1, MPI_INT, (rank + ranks - 1) % ranks, tag,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    STEPLOG_CHECK(in == out);
    steplog_mix((uint64_t)in);
    steplog_step();
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
