// Sums whose last bits tell the order of the additions. sum_order [linear]: the user has chosen Open MPI's
// linear algorithm by environment variables. 4 ranks.
#include <mpi.h>

#include "steplog.h"

enum { kCount = 32 };  // enough for every algorithm

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  STEPLOG_CHECK(ranks == 4);
  MPI_Comm again, split;
  MPI_Comm_dup(MPI_COMM_WORLD, &again);
  MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &split);
  const MPI_Comm comms[] = {MPI_COMM_WORLD, again, split};
  const int linear = argc > 1 && !strcmp(argv[1], "linear");

  while (steplog_done < steplog_steps) {
    for (int c = 0; c < 3; c++) {
      double part[kCount], sum[kCount];
      for (int i = 0; i < kCount; i++) part[i] = rank == 0 ? 1.0 : 0x1p-53;
      MPI_Allreduce(part, sum, kCount, MPI_DOUBLE, MPI_SUM, comms[c]);
      // r0 + (r1 + (r2 + r3)) is rounded twice to even, which gives the larger sum.
      if (linear) STEPLOG_CHECK(sum[0] == 1 + 0x1p-51);
      steplog_mix_bytes(sum, sizeof sum);
      MPI_Reduce(part, sum, kCount, MPI_DOUBLE, MPI_SUM, 1, comms[c]);
      if (rank == 1) steplog_mix_bytes(sum, sizeof sum);
    }
    steplog_step();
  }
  steplog_ok();
  MPI_Comm_free(&again);
  MPI_Comm_free(&split);
  MPI_Finalize();
  return 0;
}
