// Communicators by dup, split and create, some overlapping, some freed and made again, used by a seeded mix
// of collectives and point-to-point calls. Groups are kept for the whole run.
#include <mpi.h>

#include "steplog.h"

static int rank, ranks;

static void on(MPI_Comm comm, long step, uint64_t what) {
  if (comm == MPI_COMM_NULL) return;
  int r, n;
  MPI_Comm_rank(comm, &r);
  MPI_Comm_size(comm, &n);
  long mine = (r + 1) * 1000 + step, all = 0, expected = 0;
  int root = (int)(what % (uint64_t)n);
  for (int i = 0; i < n; i++) expected += (i + 1) * 1000 + step;
  switch (what / 64 % 5) {
    case 0:
      MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, comm);
      STEPLOG_CHECK(all == expected);
      break;
    case 1:
      all = r == root ? mine : -1;
      MPI_Bcast(&all, 1, MPI_LONG, root, comm);
      STEPLOG_CHECK(all == (root + 1) * 1000 + step);
      break;
    case 2:
      MPI_Reduce(&mine, &all, 1, MPI_LONG, MPI_SUM, root, comm);
      if (r == root) STEPLOG_CHECK(all == expected);
      break;
    case 3:
      MPI_Sendrecv(&mine, 1, MPI_LONG, (r + 1) % n, 5, &all, 1, MPI_LONG, (r + n - 1) % n, 5, comm,
                   MPI_STATUS_IGNORE);
      STEPLOG_CHECK(all == ((r + n - 1) % n + 1) * 1000 + step);
      break;
    default:
      MPI_Barrier(comm);
  }
  steplog_mix((uint64_t)all);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  MPI_Comm duplicate, halves, neighbours, created, brief = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &halves);      // reversed order
  MPI_Comm_split(duplicate, (rank + 1) / 2, rank, &neighbours);  // overlaps halves
  MPI_Group world, but_last;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int last = ranks - 1;
  if (ranks > 1)
    MPI_Group_excl(world, 1, &last, &but_last);
  else
    MPI_Comm_group(MPI_COMM_SELF, &but_last);
  MPI_Comm_create(MPI_COMM_WORLD, but_last, &created);
  STEPLOG_CHECK((created == MPI_COMM_NULL) == (ranks > 1 && rank == last));

  uint64_t seed = 42;  // equal on all ranks, so that they agree on the order of calls
  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    for (int k = 0; k < 6; k++) {
      uint64_t what = steplog_random(&seed);
      if ((int)(what % (uint64_t)ranks) == rank) steplog_spin(200);
      MPI_Comm comms[] = {MPI_COMM_WORLD, duplicate, halves, neighbours, created, MPI_COMM_SELF};
      on(comms[what >> 32 & 7 ? (what >> 32 & 7) % 6 : 0], step, what);
    }
    if (step % 10 == 3) MPI_Comm_dup(halves, &brief);
    if (step % 10 > 3 && step % 10 < 8) on(brief, step, 7);
    if (step % 10 == 8) {
      if (brief != MPI_COMM_NULL) MPI_Comm_free(&brief);
      STEPLOG_CHECK(brief == MPI_COMM_NULL);
    }
    int same, members, position;
    MPI_Comm_compare(MPI_COMM_WORLD, duplicate, &same);
    STEPLOG_CHECK(same == MPI_CONGRUENT);
    MPI_Group_size(but_last, &members);
    STEPLOG_CHECK(members == (ranks > 1 ? ranks - 1 : 1));
    MPI_Group_translate_ranks(world, 1, &rank, but_last, &position);
    STEPLOG_CHECK(position == (ranks > 1 && rank == last ? MPI_UNDEFINED : rank));
    steplog_step();
  }
  if (brief != MPI_COMM_NULL) MPI_Comm_free(&brief);
  if (created != MPI_COMM_NULL) MPI_Comm_free(&created);
  MPI_Group_free(&but_last);
  MPI_Group_free(&world);
  MPI_Comm_free(&neighbours);
  MPI_Comm_free(&halves);
  MPI_Comm_free(&duplicate);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
