// A mix for kills at random moments: computing, long waits in a receive and in a collective, messages in
// flight, several communicators. All results are integers, so they depend neither on the order of a reduction
// nor on the MPI; the digest includes every rank.
#include <mpi.h>

#include "steplog.h"

enum { kState = 1 << 17 };

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  long pace = steplog_pace;
  steplog_pace = 0;
  int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  MPI_Comm other, half;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  uint64_t* state = malloc(sizeof *state * kState);
  uint64_t seed = 1000 + (uint64_t)rank;
  for (int i = 0; i < kState; i++) state[i] = steplog_random(&seed);
  enum { kBurst = 8, kBig = 30000 };
  static long out[kBurst][kBig], in[kBig];

  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    // Compute: touches part of the state.
    steplog_at("compute");
    for (int i = 0; i < kState / 16; i++) state[(i * 16 + step) % kState] ^= steplog_random(&seed);
    steplog_spin(pace / 8);

    // A burst in flight while one rank receives late.
    MPI_Request sends[kBurst];
    for (int m = 0; m < kBurst; m++) {
      int n = m % 4 == 3 ? kBig : 10;
      for (int i = 0; i < n; i++) out[m][i] = (long)(state[i] >> 20) + step + m;
      MPI_Isend(out[m], n, MPI_LONG, right, m, other, &sends[m]);
    }
    if (rank == (int)(step % ranks))
      steplog_pass(pace / 4);
    else
      steplog_at("receive");
    for (int m = 0; m < kBurst; m++) {
      MPI_Recv(in, kBig, MPI_LONG, left, m, other, MPI_STATUS_IGNORE);
      steplog_mix_bytes(in, sizeof(long) * (m % 4 == 3 ? 1000 : 10));
    }
    MPI_Waitall(kBurst, sends, MPI_STATUSES_IGNORE);

    // A receive that waits for a late sender.
    if (rank == 0) {
      steplog_pass(pace / 4);
      for (int r = 1; r < ranks; r++) MPI_Send(&step, 1, MPI_LONG, r, 3, MPI_COMM_WORLD);
    } else {
      long got;
      steplog_at("receive");
      MPI_Recv(&got, 1, MPI_LONG, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      STEPLOG_CHECK(got == step);
    }

    // Collectives that one rank enters late.
    if (rank == ranks - 1) steplog_pass(pace / 4);
    steplog_at("collective");
    uint64_t mine[2] = {steplog_digest, state[step % kState]}, all[2], some = 0;
    MPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_BXOR, other);
    MPI_Allreduce(&all[0], &some, 1, MPI_UINT64_T, MPI_SUM, half);
    MPI_Bcast(&some, 1, MPI_UINT64_T, (int)(step % ranks), MPI_COMM_WORLD);
    steplog_mix(all[0]);
    steplog_mix(all[1] + some);
    steplog_step();
  }
  for (int i = 0; i < kState; i++) steplog_mix(state[i]);
  MPI_Comm_free(&half);
  MPI_Comm_free(&other);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
