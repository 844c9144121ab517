// Rank 0 has 150 sleeping threads, so that inspecting them takes long. The last rank has none and holds a
// pipe in the first half of the steps: it refuses a checkpoint while rank 0 is still inspecting.
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include "steplog.h"

enum { kThreads = 150 };
static volatile long naps[kThreads];

static void* work(void* me) {
  while (me != (void*)-1) {
    struct timespec nap = {0, 50000000};
    nanosleep(&nap, NULL);
    naps[(long)me]++;
  }
  return me;
}

int main(int argc, char** argv) {
  int rank, ranks, provided, ends[2] = {-1, -1};
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  pthread_t thread;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  for (long i = 0; rank == 0 && i < kThreads; i++)
    STEPLOG_CHECK(!pthread_create(&thread, &small, work, (void*)i));
  if (rank == ranks - 1) STEPLOG_CHECK(!pipe(ends));
  while (steplog_done < steplog_steps) {
    if (steplog_done == steplog_steps / 2 && rank == ranks - 1) {
      close(ends[0]);
      close(ends[1]);
    }
    long in = steplog_done + rank, out = 0;
    MPI_Allreduce(&in, &out, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    steplog_mix((uint64_t)out);
    steplog_step();
  }
  for (long i = 0; rank == 0 && i < kThreads; i++)
    while (naps[i] == 0) usleep(1000);  // all threads are running
  steplog_ok();
  MPI_Finalize();
  return 0;
}
