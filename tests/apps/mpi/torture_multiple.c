// MPI_THREAD_MULTIPLE for kills at random moments: four threads per rank, each with its own communicator, on
// which it sends, receives, makes communicators and calls collectives, independently of the others; every
// fourth step they synchronise. Integers only, so the digest depends neither on an order nor on the MPI.
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>

#include "steplog.h"

enum { kThreads = 4, kState = 1 << 14, kBurst = 4, kBig = 20000, kMeet = 4 };

struct Worker {
  int me;
  MPI_Comm comm;
  uint64_t digest, seed, state[kState];
  long out[kBurst][kBig], in[kBig];
};

static struct Worker workers[kThreads];
static pthread_barrier_t barrier;
static int rank, ranks;
static long pace;

static void mix(struct Worker* w, uint64_t value) {
  w->digest = (w->digest ^ value) * 0x100000001b3u;
  w->digest ^= w->digest >> 29;
}

static void at(struct Worker* w, const char* word) {  // the log shows what the main thread does
  if (w->me == 0) steplog_at(word);
}

static void compute(struct Worker* w, long step) {
  at(w, "compute");
  for (int i = 0; i < kState / 8; i++) w->state[(i * 8 + step) % kState] ^= steplog_random(&w->seed);
  if (w->me == step % kThreads) {
    struct timespec nap = {0, 1000 * pace / 4};
    nanosleep(&nap, NULL);
  } else {
    steplog_pass(pace / 8);
  }
}

static void messages(struct Worker* w, long step) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  MPI_Request sends[kBurst];
  for (int m = 0; m < kBurst; m++) {
    const int n = m == kBurst - 1 ? kBig : 10;
    for (int i = 0; i < n; i++) w->out[m][i] = (long)(w->state[i % kState] >> 20) + step + m;
    MPI_Isend(w->out[m], n, MPI_LONG, right, m, w->comm, &sends[m]);
  }
  if (rank == (int)((step + w->me) % ranks))
    steplog_pass(pace / 8);
  else
    at(w, "receive");
  for (int m = 0; m < kBurst; m++) {
    MPI_Status status;
    int n;
    MPI_Recv(w->in, kBig, MPI_LONG, m % 2 ? MPI_ANY_SOURCE : left, m, w->comm, &status);
    MPI_Get_count(&status, MPI_LONG, &n);
    STEPLOG_CHECK(n == (m == kBurst - 1 ? kBig : 10) && status.MPI_SOURCE == left);
    for (int i = 0; i < n; i += n / 10) mix(w, (uint64_t)w->in[i]);
  }
  MPI_Waitall(kBurst, sends, MPI_STATUSES_IGNORE);
}

static void collectives(struct Worker* w, long step) {
  uint64_t mine[2] = {w->digest, w->state[step % kState]}, all[2];
  if (rank == (int)((step / 2 + w->me) % ranks)) steplog_pass(pace / 8);
  at(w, "collective");
  MPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_BXOR, w->comm);
  MPI_Bcast(&mine[1], 1, MPI_UINT64_T, (int)(step % ranks), w->comm);
  mix(w, all[0] + all[1] + mine[1]);
  if ((step + w->me) % 8) return;
  MPI_Comm half, again;  // made while other threads are inside MPI
  MPI_Comm_split(w->comm, rank % 2, rank, &half);
  MPI_Comm_dup(w->comm, &again);
  MPI_Allreduce(&mine[0], &all[0], 1, MPI_UINT64_T, MPI_SUM, half);
  MPI_Allreduce(&all[0], &all[1], 1, MPI_UINT64_T, MPI_SUM, again);
  mix(w, all[1]);
  MPI_Comm_free(&half);
  MPI_Comm_free(&w->comm);
  w->comm = again;
}

static void do_step(struct Worker* w, long step) {
  compute(w, step);
  messages(w, step);
  collectives(w, step);
  if (step % kMeet == kMeet - 1) pthread_barrier_wait(&barrier);
}

static void* work(void* argument) {
  for (long step = 0; step < steplog_steps; step++) do_step(argument, step);
  return argument;
}

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  STEPLOG_CHECK(provided == MPI_THREAD_MULTIPLE);
  pace = steplog_pace;
  steplog_pace = 0;
  pthread_barrier_init(&barrier, NULL, kThreads);
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; i++) {
    struct Worker* w = &workers[i];
    w->me = i;
    w->seed = (uint64_t)(1000 * i + rank);
    for (int k = 0; k < kState; k++) w->state[k] = steplog_random(&w->seed);
    MPI_Comm_dup(MPI_COMM_WORLD, &w->comm);
  }
  for (int i = 1; i < kThreads; i++) STEPLOG_CHECK(!pthread_create(&threads[i], NULL, work, &workers[i]));
  while (steplog_done < steplog_steps) {
    do_step(&workers[0], steplog_done);
    steplog_step();
  }
  for (int i = 0; i < kThreads; i++) {
    void* result = &workers[0];
    if (i > 0) STEPLOG_CHECK(!pthread_join(threads[i], &result));
    STEPLOG_CHECK(result == &workers[i]);
    steplog_mix(workers[i].digest);
    steplog_mix_bytes(workers[i].state, sizeof workers[i].state);
    MPI_Comm_free(&workers[i].comm);
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
