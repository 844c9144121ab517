// Datatypes with counts beyond 31 bits (MPI 4; with an older MPI the program only makes its steps).
#include <mpi.h>

#include "steplog.h"

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  steplog_open(argc, argv, rank);
#if MPI_VERSION >= 4
  const MPI_Count many = (MPI_Count)3 << 30;
  MPI_Count lengths[2] = {2, many}, at[2] = {0, 5};
  MPI_Datatype large, parts;
  MPI_Type_contiguous_c(many, MPI_INT, &large);
  MPI_Type_commit(&large);
  MPI_Type_indexed_c(2, lengths, at, MPI_SHORT, &parts);
#endif
  while (steplog_done < steplog_steps) {
#if MPI_VERSION >= 4
    MPI_Count size, lower, extent;
    MPI_Type_size_c(large, &size);
    STEPLOG_CHECK(size == many * 4);
    MPI_Type_get_extent_c(parts, &lower, &extent);
    STEPLOG_CHECK(lower == 0 && extent == 2 * (many + 5));
#endif
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
#if MPI_VERSION >= 4
  MPI_Type_free(&parts);
  MPI_Type_free(&large);
#endif
  steplog_ok();
  MPI_Finalize();
  return 0;
}
