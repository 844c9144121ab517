// The ranks take turns: one computes for a while, and the others wait for it in a blocking receive.
#include <mpi.h>

#include "steplog.h"

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  long pace = steplog_pace;
  steplog_pace = 0;
  while (steplog_done < steplog_steps) {
    int busy = (int)(steplog_done % ranks);
    long value = steplog_done * 3;
    if (rank == busy) {
      steplog_pass(pace);
      for (int r = 0; r < ranks; r++)
        if (r != rank) MPI_Send(&value, 1, MPI_LONG, r, 8, MPI_COMM_WORLD);
    } else {
      steplog_at("receive");
      value = -1;
      MPI_Recv(&value, 1, MPI_LONG, busy, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    STEPLOG_CHECK(value == steplog_done * 3);
    steplog_mix((uint64_t)value);
    steplog_step();
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
