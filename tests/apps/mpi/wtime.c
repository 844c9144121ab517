// MPI_Wtime never runs backwards, and its unit is the second.
#include <mpi.h>

#include "steplog.h"

int main(int argc, char** argv) {
  int rank, provided, initialized, finalized, level;
  MPI_Initialized(&initialized);
  STEPLOG_CHECK(!initialized);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  steplog_open(argc, argv, rank);
  STEPLOG_CHECK(provided >= MPI_THREAD_FUNNELED);
  double last = MPI_Wtime();
  STEPLOG_CHECK(MPI_Wtick() > 0 && MPI_Wtick() < 1);
  while (steplog_done < steplog_steps) {
    double before = MPI_Wtime();
    STEPLOG_CHECK(before >= last);
    steplog_spin(1000);
    last = MPI_Wtime();
    STEPLOG_CHECK(last - before >= 0.0005);
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    MPI_Query_thread(&level);
    STEPLOG_CHECK(initialized && !finalized && level == provided);
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  MPI_Finalize();
  MPI_Finalized(&finalized);
  return !finalized;
}
