// Four threads set, get and delete attributes of one communicator, with their own keys and a shared one, and
// set, get and free its error handlers (MPI_THREAD_MULTIPLE). None is lost, and each value is deleted exactly
// once. (Natively, Open MPI 4.1 and MPICH 4.0 occasionally lose one.)
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>

#include "steplog.h"

enum { kThreads = 4, kKeys = 3, kRounds = 100000 };
static MPI_Comm comm;
static pthread_barrier_t step_begins, step_ends;
static int keys[kThreads][kKeys], shared;
static long values[kThreads][kKeys], sets[kThreads], deleted[kThreads][kKeys], copied, shared_deleted;

static int count(MPI_Comm c, int key, void* value, void* extra) {
  (void)c, (void)key, (void)extra;
  __atomic_fetch_add((long*)value, 1, __ATOMIC_RELAXED);
  return MPI_SUCCESS;
}
static int count_shared(MPI_Comm c, int key, void* value, void* extra) {
  (void)c, (void)key, (void)extra;
  STEPLOG_CHECK(__atomic_fetch_add((long*)value, -1, __ATOMIC_RELAXED) == 1);  // not deleted before
  free(value);
  __atomic_fetch_add(&shared_deleted, 1, __ATOMIC_RELAXED);
  return MPI_SUCCESS;
}
static int copy(MPI_Comm c, int key, void* extra, void* in, void* out, int* flag) {
  (void)c, (void)key, (void)extra;
  *(void**)out = in;
  *flag = 1;
  __atomic_fetch_add(&copied, 1, __ATOMIC_RELAXED);
  return MPI_SUCCESS;
}
static void handle(MPI_Comm* c, int* code, ...) { (void)c, (void)code; }

static void round_of(long me, long k) {
  const int key = keys[me][k % kKeys];
  long* value = &deleted[me][k % kKeys];
  long* got = NULL;
  int flag;
  STEPLOG_CHECK(!MPI_Comm_get_attr(comm, key, &got, &flag) && flag == (k >= kKeys && k / kKeys % 2 == 1));
  if (flag) {
    STEPLOG_CHECK(got == value);
    MPI_Comm_delete_attr(comm, key);
    values[me][k % kKeys]++;
    STEPLOG_CHECK(__atomic_load_n(value, __ATOMIC_RELAXED) == values[me][k % kKeys]);
    STEPLOG_CHECK(!MPI_Comm_get_attr(comm, key, &got, &flag) && !flag);
  } else {
    MPI_Comm_set_attr(comm, key, value);
    STEPLOG_CHECK(!MPI_Comm_get_attr(comm, key, &got, &flag) && flag && got == value);
  }
  if (k % 8 == 0) {
    long* fresh = malloc(sizeof *fresh);
    *fresh = 1;
    MPI_Comm_set_attr(comm, shared, fresh);
    sets[me]++;
  }
  if (k % 8 == 4) {
    MPI_Errhandler own, found;
    MPI_Comm_create_errhandler(handle, &own);
    MPI_Comm_set_errhandler(comm, own);
    MPI_Errhandler_free(&own);
    MPI_Comm_get_errhandler(comm, &found);
    STEPLOG_CHECK(found != MPI_ERRHANDLER_NULL);
    MPI_Errhandler_free(&found);
  }
}

static void* work(void* argument) {
  const long me = (long)argument;
  long k = 0;
  for (long step = 0; step < steplog_steps; step++) {
    pthread_barrier_wait(&step_begins);
    for (; k < kRounds / steplog_steps * (step + 1); k++) round_of(me, k);
    pthread_barrier_wait(&step_ends);
  }
  return argument;
}

// Everything that the threads set is present, in a duplicate too.
static void check_all(long rounds) {
  MPI_Comm twin;
  long in_twin = 0, here = 0, all_sets = 0;
  MPI_Comm_dup(comm, &twin);
  for (int t = 0; t < kThreads; t++) {
    all_sets += sets[t];
    for (int i = 0; i < kKeys; i++) {
      void* got;
      int flag;
      // The last use of this key; it was set in every other use.
      const long last = (rounds - 1 - i) / kKeys;
      MPI_Comm_get_attr(comm, keys[t][i], &got, &flag);
      STEPLOG_CHECK(flag == (last % 2 == 0));
      here += flag;
      MPI_Comm_get_attr(twin, keys[t][i], &got, &flag);
      in_twin += flag;
      if (flag) values[t][i]++;  // the duplicate's deletion deleted it
    }
  }
  STEPLOG_CHECK(here == in_twin && here == copied);
  copied = 0;
  STEPLOG_CHECK(shared_deleted == all_sets - 1);
  MPI_Comm_free(&twin);
}

int main(int argc, char** argv) {
  int provided, rank;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  STEPLOG_CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  steplog_open(argc, argv, rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_shared, &shared, NULL);
  for (int t = 0; t < kThreads; t++)
    for (int i = 0; i < kKeys; i++) MPI_Comm_create_keyval(copy, count, &keys[t][i], NULL);
  pthread_barrier_init(&step_begins, NULL, kThreads + 1);
  pthread_barrier_init(&step_ends, NULL, kThreads + 1);
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++) STEPLOG_CHECK(!pthread_create(&threads[i], NULL, work, (void*)i));
  while (steplog_done < steplog_steps) {
    pthread_barrier_wait(&step_begins);
    pthread_barrier_wait(&step_ends);
    check_all(kRounds / steplog_steps * (steplog_done + 1));
    for (int t = 0; t < kThreads; t++) steplog_mix((uint64_t)(sets[t] + values[t][0]));
    steplog_step();
  }
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  MPI_Comm_free(&comm);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
