// phases WHAT: each step makes one phase of a checkpoint long, so that the driver can hit it.
//
//   holding: rank 0 is inside a collective that the last rank, still computing, enters late.
//
//   stopping: a user-defined operation computes inside an MPI call, where no rank can be stopped.
//
//   draining: large messages are in flight and are received late.
//
//   writing: large memory takes long to write (and to load).
//
//   publishing: no phase is long; rank 0's work does not depend on the size of the images.
//
// Two more threads of each rank map and unmap memory all the time.
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <sys/mman.h>

#include "steplog.h"

enum { kMessages = 4, kLength = 1 << 20 };
static long late;  // in microseconds

static void slow_sum(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  steplog_spin(late);
  for (int i = 0; i < *length; i++) ((long*)inout)[i] += ((long*)in)[i];
}

static void* map_and_unmap(void* step) {
  const size_t bytes = 64 << 10;
  while (*(volatile long*)step < steplog_steps) {
    long* p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    STEPLOG_CHECK(p != MAP_FAILED);
    for (size_t i = 0; i < bytes / sizeof *p; i += 512) p[i] = (long)i;
    const struct timespec nap = {0, 2000000};
    nanosleep(&nap, NULL);
    for (size_t i = 0; i < bytes / sizeof *p; i += 512) STEPLOG_CHECK(p[i] == (long)i);
    munmap(p, bytes);
  }
  return step;
}

int main(int argc, char** argv) {
  int rank, ranks, provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  late = steplog_pace * 10;
  const int stopping = !strcmp(argv[1], "stopping"), draining = !strcmp(argv[1], "draining");
  const int writing = !strcmp(argv[1], "writing"), holding = !strcmp(argv[1], "holding");
  STEPLOG_CHECK(stopping || draining || writing || holding || !strcmp(argv[1], "publishing"));
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  const size_t words = writing ? 8 << 20 : 1 << 16;
  uint64_t seed = (uint64_t)rank + 1, *state = malloc(words * sizeof *state);
  for (size_t i = 0; i < words; i++) state[i] = steplog_random(&seed);
  long* out[kMessages] = {NULL};
  long* in = draining ? malloc(sizeof(long) * kLength) : NULL;
  for (int m = 0; draining && m < kMessages; m++) out[m] = malloc(sizeof(long) * kLength);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) STEPLOG_CHECK(!pthread_create(&threads[i], NULL, map_and_unmap, &steplog_done));
  MPI_Op sum;
  MPI_Op_create(slow_sum, 1, &sum);

  while (steplog_done < steplog_steps) {
    for (size_t i = (size_t)steplog_done; i < words; i += 4096) state[i] ^= steplog_random(&seed);
    if (holding && rank == ranks - 1) steplog_pass(late);
    if (stopping) {
      long a = steplog_done, b = 5;
      MPI_Reduce_local(&a, &b, 1, MPI_LONG, sum);
      STEPLOG_CHECK(b == steplog_done + 5);
    }
    if (draining) {
      MPI_Request sends[kMessages];
      for (int m = 0; m < kMessages; m++) {
        for (int i = 0; i < kLength; i++) out[m][i] = rank * 1000003 + steplog_done * 17 + m + i;
        MPI_Isend(out[m], kLength, MPI_LONG, right, m, MPI_COMM_WORLD, &sends[m]);
      }
      steplog_pass(late);
      for (int m = 0; m < kMessages; m++) {
        MPI_Recv(in, kLength, MPI_LONG, left, m, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < kLength; i++) STEPLOG_CHECK(in[i] == left * 1000003 + steplog_done * 17 + m + i);
      }
      MPI_Waitall(kMessages, sends, MPI_STATUSES_IGNORE);
    }
    uint64_t mine = state[(size_t)steplog_done * 4097 % words] ^ steplog_digest, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
    steplog_mix(all);
    steplog_step();
  }
  for (size_t i = 0; i < words; i++) steplog_mix(state[i]);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  MPI_Op_free(&sum);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
