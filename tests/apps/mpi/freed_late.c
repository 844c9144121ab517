// Every 12 steps the ranks make two communicators, a duplicate and a grid. The first rank frees its own at
// once, the others some steps later in another order; the last rank never frees its first ones. Ranks that
// still have one query its members and shape. A message that is sent on each duplicate is never received.
#include <mpi.h>

#include "steplog.h"

static int rank, ranks;

static void ask(MPI_Comm comm, MPI_Comm grid) {
  int n = 0, dims = 0, periods = -1, coords = -1, same = -1;
  if (comm != MPI_COMM_NULL) {
    MPI_Comm_size(comm, &n);
    MPI_Comm_compare(comm, MPI_COMM_WORLD, &same);
    STEPLOG_CHECK(n == ranks && same == MPI_CONGRUENT);
  }
  if (grid != MPI_COMM_NULL) {
    MPI_Cart_get(grid, 1, &dims, &periods, &coords);
    STEPLOG_CHECK(dims == ranks && periods == 1 && coords == rank);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  MPI_Comm comm = MPI_COMM_NULL, grid = MPI_COMM_NULL, kept = MPI_COMM_NULL, kept_grid = MPI_COMM_NULL;
  while (steplog_done < steplog_steps) {
    const int phase = (int)(steplog_done % 12), periodic = 1;
    if (phase == 0) {
      MPI_Comm_dup(MPI_COMM_WORLD, &comm);
      if (rank == 0) MPI_Send(&rank, 1, MPI_INT, 1, 9, comm);
      MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &grid);
      long mine = rank + steplog_done, all = 0;
      MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, grid);
      steplog_mix((uint64_t)all);
      if (steplog_done == 0 && rank == ranks - 1) kept = comm, kept_grid = grid, comm = grid = MPI_COMM_NULL;
    }
    if (phase == (rank ? 9 : 1) && grid != MPI_COMM_NULL) MPI_Comm_free(&grid);
    if (phase == (rank ? 8 : 2) && comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
    ask(comm, grid);
    ask(kept, kept_grid);
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    steplog_mix((uint64_t)sum);
    steplog_step();
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
