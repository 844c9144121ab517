// OpenMP and MPI, for kills at random moments: parallel regions of varying team size (so libgomp ends and
// creates threads) with loops, tasks, a critical section and a sleeping thread, between messages and
// collectives. Sums of doubles have a fixed order over threads and ranks, so that results depend neither on
// the team size nor on the MPI. Only the main thread calls MPI (MPI_THREAD_FUNNELED); with --serialized, all
// threads do in turn.
#include <mpi.h>
#include <omp.h>

#include "steplog.h"

enum { kParts = 16, kPart = 4096, kWords = kParts * kPart, kTeam = 4 };

static double field[kWords + 2], next[kWords + 2], parts[kParts];
static int rank, ranks, right, left, serialized;
static long pace;

// Exchanges the boundary cells of this rank's part of the ring. One rank is late.
static void exchange(long step) {
  MPI_Request requests[4];
  MPI_Irecv(&field[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&field[kWords + 1], 1, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &requests[1]);
  if (rank == (int)(step % ranks))
    steplog_spin(pace / 4);
  else
    steplog_at("receive");
  MPI_Isend(&field[kWords], 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(&field[1], 1, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

static double relax(int part) {
  double sum = 0;
  for (int i = part * kPart + 1; i <= (part + 1) * kPart; i++) {
    next[i] = 0.25 * field[i - 1] + 0.5 * field[i] + 0.25 * field[i + 1] + 1e-3 * (i % 7);
    sum += next[i] * next[i];
  }
  return sum;
}

static uint64_t count(int depth, uint64_t seed) {
  uint64_t below[2] = {0, 0};
  if (depth == 0) return steplog_random(&seed);
  for (int side = 0; side < 2; side++) {
#pragma omp task shared(below) firstprivate(side)
    below[side] = count(depth - 1, 2 * seed + (uint64_t)side);
  }
#pragma omp taskwait
  return below[0] ^ (below[1] << 1);
}

int main(int argc, char** argv) {
  int provided, wanted = MPI_THREAD_FUNNELED;
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--serialized")) serialized = 1, wanted = MPI_THREAD_SERIALIZED;
  MPI_Init_thread(&argc, &argv, wanted, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  STEPLOG_CHECK(provided >= wanted);
  pace = steplog_pace;
  steplog_pace = 0;
  right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  omp_set_dynamic(0);
  for (int i = 1; i <= kWords; i++) field[i] = (double)((i * 37 + rank * 11) % 1000) / 1000;
  double* sums = malloc(sizeof *sums * (size_t)ranks);

  while (steplog_done < steplog_steps) {
    const long step = steplog_done;
    const int team = step % 16 < 12 ? kTeam : 2;
    uint64_t tasks = 0, passed = 0;
    exchange(step);

    steplog_at("compute");
#pragma omp parallel num_threads(team)
    {
      if (omp_get_thread_num() == (int)(step % team)) {  // the others wait for it
        struct timespec nap = {0, 1000 * pace / 8};
        nanosleep(&nap, NULL);
      } else {
        steplog_spin(pace / 8);
      }
#pragma omp for schedule(dynamic, 1)
      for (int part = 0; part < kParts; part++) parts[part] = relax(part);
#pragma omp for schedule(static)
      for (int i = 1; i <= kWords; i++) field[i] = next[i];
#pragma omp single
      tasks = count(6, (uint64_t)(step + rank));
#pragma omp critical
      passed++;
    }
    STEPLOG_CHECK(passed == (uint64_t)team);

    double sum = 0, total = 0;
    for (int part = 0; part < kParts; part++) sum += parts[part];
    if (serialized) {
#pragma omp parallel for num_threads(team) ordered schedule(static, 1)
      for (int turn = 0; turn < 2 * kTeam; turn++) {
        steplog_spin(pace / 40);
#pragma omp ordered
        {  // the same order on all ranks, from a different thread each time
          uint64_t mine = tasks + (uint64_t)turn, theirs = 0;
          MPI_Sendrecv(&mine, 1, MPI_UINT64_T, right, 3, &theirs, 1, MPI_UINT64_T, left, 3, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
          MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
          tasks ^= mine + (theirs << 1);
        }
      }
    }
    if (rank == ranks - 1) steplog_spin(pace / 4);
    steplog_at("collective");
    MPI_Allgather(&sum, 1, MPI_DOUBLE, sums, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int r = 0; r < ranks; r++) total += sums[r];
    field[1 + step % kWords] += 1 / (1 + total);
    steplog_mix(tasks);
    steplog_mix_bytes(&total, sizeof total);
    steplog_step();
  }
  steplog_mix_bytes(field, sizeof field);
  free(sums);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
