// Computes from MPI_Init to MPI_Finalize without a single MPI call in between. Then Open MPI still has the
// setting that the program gave it before MPI_Init.
#include <mpi.h>

#include "steplog.h"

int main(int argc, char** argv) {
  int rank;
  setenv("OMPI_MCA_mpi_param_check", "0", 1);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  steplog_open(argc, argv, rank);
  uint64_t state = (uint64_t)rank;
  const long pace = steplog_pace;
  steplog_pace = 0;
  while (steplog_done < steplog_steps) {
    for (int i = 0; i < 100000; i++) steplog_mix(steplog_random(&state));
    steplog_step();
    steplog_spin(pace);
  }
#if defined(OPEN_MPI)
  STEPLOG_CHECK(MPI_Send(&rank, -1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD) == MPI_SUCCESS);  // unchecked
#endif
  uint64_t mine = steplog_digest, all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
  steplog_mix(all);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
