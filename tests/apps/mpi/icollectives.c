// Nonblocking collectives that stay pending over long computations, started by the ranks at different times,
// on several communicators at once, some of which are freed meanwhile. Any number of ranks.
#include <mpi.h>

#include "steplog.h"

enum { kMost = 16, kLong = 40000 };

static int rank, ranks;
static int own[kMost], all[kMost], sum[kMost], prefix, part, share[kMost];
static int out[kLong], in[kLong];
static int bytes_out[kMost], bytes_in[kMost], counts[kMost], places[kMost];
static MPI_Datatype types[kMost];

static int value(int from, long step, int i) { return from * 10007 + (int)step * 13 + i; }

static void check_sum(const int* got, int n, long step, int offset) {
  for (int i = 0; i < n; i++) {
    int expected = 0;
    for (int r = 0; r < ranks; r++) expected += value(r, step, offset + i);
    STEPLOG_CHECK(got[i] == expected);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  STEPLOG_CHECK(ranks <= kMost);
  steplog_open(argc, argv, rank);
  MPI_Comm other, half;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);

  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    int root = (int)(step % ranks);
    MPI_Request r[9];
    // The ranks start it one after the other, and compute on.
    steplog_pass(steplog_pace * rank / (4 * ranks));
    for (int i = 0; i < kMost; i++) own[i] = value(rank, step, i);
    for (int i = 0; i < kLong; i++) out[i] = value(rank, step, i);
    MPI_Iallreduce(own, sum, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[0]);
    if (rank == root) memcpy(in, out, sizeof in);
    MPI_Ibcast(in, kLong, MPI_INT, root, other, &r[1]);
    MPI_Igather(own, 1, MPI_INT, all, 1, MPI_INT, root, MPI_COMM_WORLD, &r[2]);
    MPI_Iscan(own, &prefix, 1, MPI_INT, MPI_SUM, other, &r[3]);
    steplog_pass(steplog_pace / 4);
    MPI_Ireduce_scatter_block(own, &part, 1, MPI_INT, MPI_SUM, other, &r[4]);
    for (int i = 0; i < ranks; i++) {
      // Arrays that the pending call still reads, and a datatype that is freed before it completes.
      counts[i] = 1, places[i] = i * (int)sizeof(int), bytes_out[i] = value(rank, step, 100 + i);
      MPI_Type_contiguous(1, MPI_INT, &types[i]);
      MPI_Type_commit(&types[i]);
    }
    MPI_Ialltoallw(bytes_out, counts, places, types, bytes_in, counts, places, types, MPI_COMM_WORLD, &r[5]);
    for (int i = 0; i < ranks; i++) MPI_Type_free(&types[i]);
    // On a communicator that is freed at once.
    MPI_Comm brief;
    MPI_Comm_dup(MPI_COMM_WORLD, &brief);
    MPI_Iallgather(own, 1, MPI_INT, share, 1, MPI_INT, brief, &r[6]);
    MPI_Comm_free(&brief);
    int members = 0, one = 1;
    MPI_Iallreduce(&one, &members, 1, MPI_INT, MPI_SUM, half, &r[7]);
    MPI_Ibarrier(MPI_COMM_SELF, &r[8]);
    steplog_pass(steplog_pace / 4);

    // Blocking collectives and messages between start and completion.
    int most = 0, token = rank, from = -1;
    MPI_Allreduce(&rank, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    STEPLOG_CHECK(most == ranks - 1);
    MPI_Sendrecv(&token, 1, MPI_INT, (rank + 1) % ranks, 3, &from, 1, MPI_INT, (rank + ranks - 1) % ranks, 3,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    STEPLOG_CHECK(from == (rank + ranks - 1) % ranks);

    if (step % 3 == 0) {
      MPI_Waitall(9, r, MPI_STATUSES_IGNORE);
    } else if (step % 3 == 1) {
      for (int done = 0; done < 9; done++) {
        int index;
        MPI_Waitany(9, r, &index, MPI_STATUS_IGNORE);
        STEPLOG_CHECK(index >= 0 && index < 9);
      }
    } else {
      for (int flag = 0; !flag;) MPI_Testall(9, r, &flag, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < 9; i++) STEPLOG_CHECK(r[i] == MPI_REQUEST_NULL);
    check_sum(sum, 4, step, 0);
    check_sum(&part, 1, step, rank);
    for (int i = 0; i < kLong; i++) STEPLOG_CHECK(in[i] == value(root, step, i));
    int expected = 0;
    for (int k = 0; k <= rank; k++) expected += value(k, step, 0);
    STEPLOG_CHECK(prefix == expected);
    for (int i = 0; i < ranks; i++) {
      STEPLOG_CHECK(rank != root || all[i] == value(i, step, 0));
      STEPLOG_CHECK(share[i] == value(i, step, 0));
      STEPLOG_CHECK(bytes_in[i] == value(i, step, 100 + rank));
    }
    STEPLOG_CHECK(members == (ranks + 1 - rank % 2) / 2);
    steplog_mix_bytes(sum, sizeof sum);
    steplog_mix_bytes(in, sizeof in);
    memset(in, 0xee, sizeof in), memset(sum, 0, sizeof sum), memset(bytes_in, 0, sizeof bytes_in);
    memset(share, 0, sizeof share), memset(all, 0, sizeof all);
    steplog_step();
  }
  MPI_Comm_free(&half);
  MPI_Comm_free(&other);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
