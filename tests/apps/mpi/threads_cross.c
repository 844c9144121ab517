// Threads of each rank send each other 1 MB messages that cross (both ranks are inside blocking sends most of
// the time); the receivers are late. MPI_THREAD_MULTIPLE. Checks order, lengths and contents.
// threads_cross refuse: the last rank has a pipe open half of the time, so that checkpoints are refused while
// the other ranks are already draining.
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include "steplog.h"

enum { kPairs = 2, kLarge = 1 << 17 };
static int rank, ranks;
static uint64_t sums[kPairs];

static int length(long k, long pair) { return k % 4 == 3 ? 10 + (int)pair : kLarge - (int)k; }

static void send_to_the_right(long* buffer, long k, long pair) {
  for (int i = 0; i < length(k, pair); i++) buffer[i] = (k << 24) + (pair << 22) + rank + i;
  MPI_Send(buffer, length(k, pair), MPI_LONG, (rank + 1) % ranks, (int)pair, MPI_COMM_WORLD);
}

static void* receive(void* argument) {
  const long pair = (long)argument;
  const int left = (rank + ranks - 1) % ranks;
  long* buffer = malloc(sizeof *buffer * kLarge);
  for (long k = 0; k < steplog_steps; k++) {
    MPI_Status s;
    int n;
    const struct timespec late = {0, steplog_pace * 1000};
    nanosleep(&late, NULL);
    if (k % 3 == 2) {
      MPI_Message m;
      MPI_Mprobe(left, (int)pair, MPI_COMM_WORLD, &m, &s);
      MPI_Mrecv(buffer, kLarge, MPI_LONG, &m, &s);
    } else {
      MPI_Recv(buffer, kLarge, MPI_LONG, k % 2 ? MPI_ANY_SOURCE : left, (int)pair, MPI_COMM_WORLD, &s);
    }
    MPI_Get_count(&s, MPI_LONG, &n);
    STEPLOG_CHECK(s.MPI_SOURCE == left && n == length(k, pair));
    for (int i = 0; i < n; i++) STEPLOG_CHECK(buffer[i] == (k << 24) + (pair << 22) + left + i);
    sums[pair] = sums[pair] * 31 + (uint64_t)buffer[n / 2];
  }
  free(buffer);
  return argument;
}

static void* send_all(void* argument) {
  long* buffer = malloc(sizeof *buffer * kLarge);
  for (long k = 0; k < steplog_steps; k++) send_to_the_right(buffer, k, (long)argument);
  free(buffer);
  return argument;
}

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  STEPLOG_CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  long* buffer = malloc(sizeof *buffer * kLarge);
  pthread_t receivers[kPairs], sender;
  for (long i = 0; i < kPairs; i++) STEPLOG_CHECK(!pthread_create(&receivers[i], NULL, receive, (void*)i));
  STEPLOG_CHECK(!pthread_create(&sender, NULL, send_all, (void*)1));
  const int refuses = argc > 1 && !strcmp(argv[1], "refuse") && rank == ranks - 1;
  int ends[2] = {-1, -1};
  while (steplog_done < steplog_steps) {
    if (refuses && steplog_done % 40 == 20) STEPLOG_CHECK(!pipe(ends));
    if (refuses && steplog_done % 40 == 39) STEPLOG_CHECK(!close(ends[0]) && !close(ends[1]));
    send_to_the_right(buffer, steplog_done, 0);
    steplog_done++;
    fprintf(steplog_file, "step %ld %.6f\n", steplog_done, steplog_now());
  }
  pthread_join(sender, NULL);
  for (int i = 0; i < kPairs; i++) {
    pthread_join(receivers[i], NULL);
    steplog_mix(sums[i]);
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
