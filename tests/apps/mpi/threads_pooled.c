// Only the main thread calls MPI (MPI_THREAD_FUNNELED), or one thread after the other (--serialized), while
// other threads compute.
#include <mpi.h>
#include <pthread.h>

#include "steplog.h"

enum { kWorkers = 3 };

static pthread_barrier_t barrier;
static pthread_mutex_t mpi = PTHREAD_MUTEX_INITIALIZER;
static uint64_t parts[kWorkers + 1], sums[kWorkers + 1];
static int serialized;
static MPI_Comm comms[kWorkers + 1];

static void reduce(int me) {
  pthread_mutex_lock(&mpi);
  MPI_Allreduce(&parts[me], &sums[me], 1, MPI_UINT64_T, MPI_SUM, comms[me]);
  pthread_mutex_unlock(&mpi);
}

static void* work(void* argument) {
  const int me = (int)(long)argument;
  uint64_t state = (uint64_t)me;
  for (long round = 0; round < steplog_steps; round++) {
    for (int i = 0; i < 30000; i++) parts[me] += steplog_random(&state);
    for (int turn = 0; turn < kWorkers; turn++) {
      pthread_barrier_wait(&barrier);
      if (serialized && turn == me) reduce(me);  // the same order on all ranks
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    parts[me] ^= sums[me];
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kWorkers];
  int rank, provided;
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--serialized")) serialized = 1;
  MPI_Init_thread(&argc, &argv, serialized ? MPI_THREAD_SERIALIZED : MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  steplog_open(argc, argv, rank);
  STEPLOG_CHECK(provided >= (serialized ? MPI_THREAD_SERIALIZED : MPI_THREAD_FUNNELED));
  for (int i = 0; i <= kWorkers; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  pthread_barrier_init(&barrier, NULL, kWorkers + 1);
  for (long i = 0; i < kWorkers; i++) STEPLOG_CHECK(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  while (steplog_done < steplog_steps) {
    for (int turn = 0; turn <= kWorkers; turn++) pthread_barrier_wait(&barrier);
    if (!serialized)
      for (int i = 0; i < kWorkers; i++) reduce(i);
    parts[kWorkers] += sums[0] + (uint64_t)rank;
    reduce(kWorkers);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i <= kWorkers; i++) steplog_mix(sums[i]);
    steplog_step();
  }
  for (int i = 0; i < kWorkers; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  MPI_Finalize();
  steplog_ok();
  return 0;
}
