// Communicators made with Open MPI's hint for the algorithms of collectives, whose sums tell the order of the
// additions. Communicators made from one of these without hints do not have it. 4 ranks.
#include <mpi.h>

#include "steplog.h"

enum { kCount = 32, kComms = 5 };

static void check_made(MPI_Comm graph) {
  int in = -1, out = -1, weighted = -1;
  MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
  STEPLOG_CHECK(in == 1 && out == 1);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  STEPLOG_CHECK(ranks == 4);
  MPI_Info hint;
  MPI_Info_create(&hint);
  MPI_Info_set(hint, "ompi_comm_coll_preference", "basic");
  MPI_Comm comms[kComms];
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, hint, &comms[0]);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, hint, &comms[1]);
  const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks, weight = 1;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, &weight, 1, &right, &weight, hint, 0, &comms[2]);
  MPI_Comm_dup(comms[0], &comms[3]);
  MPI_Request made;
  MPI_Comm_idup(comms[0], &comms[4], &made);
  MPI_Wait(&made, MPI_STATUS_IGNORE);
  MPI_Info_free(&hint);

  while (steplog_done < steplog_steps) {
    double part[kCount], sum[kComms][kCount];
    for (int i = 0; i < kCount; i++) part[i] = rank == 0 ? 1.0 : 0x1p-53;
    for (int c = 0; c < kComms; c++) MPI_Allreduce(part, sum[c], kCount, MPI_DOUBLE, MPI_SUM, comms[c]);
    steplog_mix_bytes(sum, sizeof sum);
#if defined(OPEN_MPI)
    STEPLOG_CHECK(memcmp(sum[0], sum[3], sizeof sum[0]) != 0);
    for (int c = 1; c < 3; c++) STEPLOG_CHECK(memcmp(sum[0], sum[c], sizeof sum[0]) == 0);
    STEPLOG_CHECK(memcmp(sum[3], sum[4], sizeof sum[3]) == 0);
#endif
    check_made(comms[2]);
    steplog_step();
  }
  steplog_ok();
  for (int c = 0; c < kComms; c++) MPI_Comm_free(&comms[c]);
  MPI_Finalize();
  return 0;
}
