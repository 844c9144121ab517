// A program that flushes subnormals to zero, as -ffast-math and torch.set_flush_denormal() do, and rounds
// upward, wherever it calls MPI; in between it computes in other modes. Reductions of its numbers stay
// pending while it calls no MPI, so that only a checkpoint goes on with them. 2 ranks. float_modes worker: a
// second thread does that, and the main thread, in the standard modes, waits for it.
#include <mpi.h>
#include <pthread.h>
#include <xmmintrin.h>

#include "steplog.h"

enum { kFew = 4 };

static const double parts[2][kFew] = {{3e-310, 1.0, 1e-320, 3.0}, {4e-310, 0x1p-60, 1e-320, 0x1p-70}};
static const long double long_parts[2] = {1.0L, 0x1p-80L};

// The same additions on this rank. volatile: not at compile time, where there are no modes.
static double added(int i) {
  const volatile double a = parts[0][i], b = parts[1][i];
  return a + b;
}
static long double added_long(void) {
  const volatile long double a = long_parts[0], b = long_parts[1];
  return a + b;
}

static void round_upward(int yes) {
  const unsigned modes = 0x8000 | 0x4000 | 0x40;      // flush to zero, round upward, denormals are zeros
  const unsigned short word = yes ? 0x0b7f : 0x037f;  // x87: all traps masked, round upward, 64 bits
  _mm_setcsr((_mm_getcsr() & ~0xe040u) | (yes ? modes : 0));
  __asm__ volatile("fldcw %0" ::"m"(word));
}

static void* reduce(void* argument) {
  const int rank = *(const int*)argument;
  round_upward(1);
  STEPLOG_CHECK(added(0) == 0 && added(1) > 1 && added_long() > 1);
  uint64_t draws = 1;  // the same on both ranks

  while (steplog_done < steplog_steps) {
    // No period, at whose ends a checkpoint would find nothing pending.
    for (uint64_t i = steplog_random(&draws) % 4; i > 0; i--) MPI_Barrier(MPI_COMM_WORLD);
    double sum[kFew];
    long double long_sum;
    MPI_Request r[2];
    // Rank 0 begins last: what it sends is there when rank 1 calls no MPI any more.
    if (rank == 0) steplog_pass(steplog_pace / 10);
    MPI_Iallreduce(parts[rank], sum, kFew, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r[0]);
    MPI_Iallreduce(&long_parts[rank], &long_sum, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r[1]);
    round_upward(0);
    steplog_step();  // passes the pace
    round_upward(1);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < kFew; i++) STEPLOG_CHECK(sum[i] == added(i));
    STEPLOG_CHECK(long_sum == added_long());
    steplog_mix_bytes(sum, sizeof sum);
  }
  return argument;
}

int main(int argc, char** argv) {
  int rank, ranks, provided;
  const int has_worker = argc > 1 && !strcmp(argv[1], "worker");
  MPI_Init_thread(&argc, &argv, has_worker ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  STEPLOG_CHECK(ranks == 2 && (!has_worker || provided == MPI_THREAD_MULTIPLE));
  if (has_worker) {
    pthread_t worker;
    STEPLOG_CHECK(!pthread_create(&worker, NULL, reduce, &rank) && !pthread_join(worker, NULL));
  } else {
    reduce(&rank);
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
