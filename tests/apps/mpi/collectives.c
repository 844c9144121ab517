// All blocking collectives, with MPI_IN_PLACE where allowed. Types that MPI ignores are never set. The
// numbers are integers, so the order of reduction does not matter.
#include <mpi.h>

#include "steplog.h"

enum { kMost = 64 };

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  STEPLOG_CHECK(ranks <= kMost);
  steplog_open(argc, argv, rank);
  int counts[kMost], offsets[kMost], bytes[kMost], byte_offsets[kMost];
  MPI_Datatype types[kMost], unset;
  memset(&unset, 0x5a, sizeof unset);
  int total = 0;
  for (int r = 0; r < ranks; r++) {
    counts[r] = r + 1;
    offsets[r] = total;
    total += r + 1;
  }
  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    int root = (int)(step % ranks), n = (int)step, x, y;
    int all[kMost * kMost], mine[kMost * kMost];
    int sum = ranks * (ranks - 1) / 2 + ranks * n;
    const MPI_Datatype at_root = rank == root ? MPI_INT : unset;

    x = rank == root ? 7 * n : 0;
    MPI_Bcast(&x, 1, MPI_INT, root, MPI_COMM_WORLD);
    STEPLOG_CHECK(x == 7 * n);
    x = rank + n;
    MPI_Reduce(rank == root ? MPI_IN_PLACE : &x, rank == root ? &x : NULL, 1, MPI_INT, MPI_SUM, root,
               MPI_COMM_WORLD);
    if (rank == root) STEPLOG_CHECK(x == sum);
    x = rank + n;
    MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    STEPLOG_CHECK(x == sum);
    steplog_mix((uint64_t)x);
    struct {
      double value;
      int where;
    } best = {rank == root ? 5.5 : 1.0 / (rank + 2), rank};
    MPI_Allreduce(MPI_IN_PLACE, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    STEPLOG_CHECK(best.where == root && best.value == 5.5);

    x = rank * 3 + n;
    MPI_Gather(&x, 1, MPI_INT, all, 1, at_root, root, MPI_COMM_WORLD);
    if (rank == root)
      for (int r = 0; r < ranks; r++) STEPLOG_CHECK(all[r] == r * 3 + n);
    MPI_Scatter(all, 1, at_root, rank == root ? MPI_IN_PLACE : &y, 1, rank == root ? unset : MPI_INT, root,
                MPI_COMM_WORLD);
    if (rank != root) STEPLOG_CHECK(y == x);
    for (int i = 0; i < counts[rank]; i++) mine[i] = rank * 100 + i + n;
    MPI_Gatherv(mine, counts[rank], MPI_INT, all, counts, offsets, at_root, root, MPI_COMM_WORLD);
    if (rank == root)
      for (int r = 0; r < ranks; r++) STEPLOG_CHECK(all[offsets[r] + r] == r * 100 + r + n);
    memset(mine, 0, sizeof mine);
    MPI_Scatterv(all, counts, offsets, at_root, mine, counts[rank], MPI_INT, root, MPI_COMM_WORLD);
    STEPLOG_CHECK(mine[rank] == rank * 100 + rank + n);

    all[rank] = rank * 5 + n;
    MPI_Allgather(MPI_IN_PLACE, 0, unset, all, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < ranks; r++) STEPLOG_CHECK(all[r] == r * 5 + n);
    MPI_Allgatherv(mine, counts[rank], MPI_INT, all, counts, offsets, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < ranks; r++) STEPLOG_CHECK(all[offsets[r]] == r * 100 + n);
    for (int r = 0; r < ranks; r++) mine[r] = rank * 50 + r + n;
    MPI_Alltoall(mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < ranks; r++) STEPLOG_CHECK(all[r] == r * 50 + rank + n);
    // Rank r gets r+1 numbers from each rank, so rank+1 come from each.
    int in_counts[kMost], in_offsets[kMost];
    for (int r = 0; r < ranks; r++) {
      in_counts[r] = rank + 1;
      in_offsets[r] = r * (rank + 1);
      for (int i = 0; i <= r; i++) mine[offsets[r] + i] = rank * 1000 + r * 10 + i + n;
    }
    MPI_Alltoallv(mine, counts, offsets, MPI_INT, all, in_counts, in_offsets, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < ranks; r++)
      STEPLOG_CHECK(all[in_offsets[r] + rank] == r * 1000 + rank * 10 + rank + n);
    for (int r = 0; r < ranks; r++) {
      types[r] = MPI_INT;
      bytes[r] = 1;
      byte_offsets[r] = r * (int)sizeof(int);
      mine[r] = rank + 9 * r + n;
    }
    MPI_Alltoallw(mine, bytes, byte_offsets, types, all, bytes, byte_offsets, types, MPI_COMM_WORLD);
    for (int r = 0; r < ranks; r++) STEPLOG_CHECK(all[r] == r + 9 * rank + n);

    x = rank + 1;
    MPI_Scan(&x, &y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    STEPLOG_CHECK(y == (rank + 1) * (rank + 2) / 2);
    MPI_Exscan(&x, &y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank) STEPLOG_CHECK(y == rank * (rank + 1) / 2);
    for (int i = 0; i < total; i++) mine[i] = i + rank;
    MPI_Reduce_scatter(mine, all, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    STEPLOG_CHECK(all[rank] == ranks * (offsets[rank] + rank) + ranks * (ranks - 1) / 2);
    for (int r = 0; r < ranks; r++) mine[r] = r * n + rank;
    MPI_Reduce_scatter_block(mine, &y, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    STEPLOG_CHECK(y == rank * n + ranks - 1);
    long long wide = 1ll << (rank % 60), every = 0;
    MPI_Allreduce(&wide, &every, 1, MPI_LONG_LONG, MPI_BOR, MPI_COMM_WORLD);
    steplog_mix((uint64_t)every);
    MPI_Barrier(MPI_COMM_WORLD);
    steplog_mix((uint64_t)y);
    steplog_step();
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
