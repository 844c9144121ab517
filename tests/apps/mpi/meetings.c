// Calls that communicate inside the MPI among processes that are not the members of a single communicator:
// inter-communicators between groups of one, communicators of some members, dynamic connections within the
// job. They follow each other closely, so that checkpoint requests hit them. meetings
// alone|groups|create_group
#include <mpi.h>

#include "steplog.h"

static int rank, ranks;

// Two groups of one process each: only the leaders' messages on the peer communicator connect them.
static void alone(void) {
  int other = rank ^ 1;
  if (other >= ranks) return;
  MPI_Comm inter;
  MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, other, 7, &inter);
  int mine = rank, theirs = -1;
  MPI_Sendrecv(&mine, 1, MPI_INT, 0, 1, &theirs, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE);
  STEPLOG_CHECK(theirs == other);
  MPI_Comm_free(&inter);
}

static void groups(void) {
  if (ranks < 2) return;
  MPI_Comm half, inter, both, peer = MPI_COMM_NULL;
#if defined(OPEN_MPI)  // ignored on all but the leaders, the ranks 0 and 1; MPICH wants a handle
  memset(&peer, 0x5a, sizeof peer);
#endif
  if (rank < 2) peer = MPI_COMM_WORLD;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, peer, (rank + 1) % 2, 8, &inter);
  MPI_Intercomm_merge(inter, rank % 2, &both);
  int n;
  MPI_Comm_size(both, &n);
  STEPLOG_CHECK(n == ranks);
  MPI_Comm_free(&both);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

static void create_group(long step) {
  int first = (int)(step % (ranks > 2 ? ranks - 1 : 1));
  int pair[2] = {first, first + 1};
  if (ranks < 2 || (rank != pair[0] && rank != pair[1])) return;
  MPI_Group world, two;
  MPI_Comm c;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 2, pair, &two);
  MPI_Comm_create_group(MPI_COMM_WORLD, two, 9, &c);
  int one = 1, all = 0;
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, c);
  STEPLOG_CHECK(all == 2);
  MPI_Comm_free(&c);
  MPI_Group_free(&two);
  MPI_Group_free(&world);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  uint64_t seed = 7 + (uint64_t)rank;
  while (steplog_done < steplog_steps) {
    // The ranks enter the call at different times.
    steplog_spin((long)(steplog_random(&seed) % 4000));
    if (!strcmp(argv[1], "alone"))
      alone();
    else if (!strcmp(argv[1], "groups"))
      groups();
    else if (!strcmp(argv[1], "create_group"))
      create_group(steplog_done);
    else
      steplog_fail("unknown: %s", argv[1]);
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
