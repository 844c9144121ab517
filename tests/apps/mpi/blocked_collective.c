// The ranks take turns: one computes for a while, and the others wait for it in a collective, sometimes one
// with an Info.
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
  MPI_Info hints;
  MPI_Info_create(&hints);
  MPI_Info_set(hints, "mpi_assert_no_any_tag", "false");
  while (steplog_done < steplog_steps) {
    long step = steplog_done, value = step + rank, sum = 0;
    if (rank == (int)(step % ranks))
      steplog_pass(pace);
    else
      steplog_at("collective");
    if (step % 3 == 0) MPI_Barrier(MPI_COMM_WORLD);
    if (step % 3 == 1) {
      MPI_Comm together;
      int members;
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, hints, &together);
      MPI_Comm_size(together, &members);
      STEPLOG_CHECK(members == ranks);
      MPI_Comm_free(&together);
    }
    MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    STEPLOG_CHECK(sum == ranks * step + ranks * (ranks - 1) / 2);
    steplog_mix((uint64_t)sum);
    steplog_step();
  }
  MPI_Info_free(&hints);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
