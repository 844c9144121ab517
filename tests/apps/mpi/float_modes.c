// A program that flushes subnormals to zero, as -ffast-math and torch.set_flush_denormal() do, and rounds
// upward. Reductions of its numbers stay pending while it calls no MPI, so that only a checkpoint goes on
// with them. 2 ranks.
#include <mpi.h>
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

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  STEPLOG_CHECK(ranks == 2);
  const unsigned modes = 0x8000 | 0x4000 | 0x40;  // flush to zero, round upward, denormals are zeros
  const unsigned short word = 0x0b7f;             // x87: all traps masked, round upward, 64 bits
  _mm_setcsr((_mm_getcsr() & ~0x6000u) | modes);
  __asm__ volatile("fldcw %0" ::"m"(word));
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
    steplog_step();  // passes the pace
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < kFew; i++) STEPLOG_CHECK(sum[i] == added(i));
    STEPLOG_CHECK(long_sum == added_long());
    steplog_mix_bytes(sum, sizeof sum);
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
