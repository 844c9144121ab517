// Four threads concurrently receive waiting messages, each its own tags, into vectors and by probes; each
// thread also makes and uses its own operation. The threads are joined before a step ends.
#include <mpi.h>
#include <pthread.h>

#include "steplog.h"

enum { kThreads = 4, kMessages = 24 };
static int rank, ranks, before;
static MPI_Comm own[kThreads];

#define OPERATION(n)                                                            \
  static void op##n(void* in, void* inout, int* length, MPI_Datatype* type) {   \
    (void)type;                                                                 \
    for (int i = 0; i < *length; i++) ((int*)inout)[i] = ((int*)in)[i] * 0 + n; \
  }
OPERATION(0)
OPERATION(1)
OPERATION(2)
OPERATION(3)
static MPI_User_function* const operations[kThreads] = {op0, op1, op2, op3};

static int value(int from, long step, int thread, int k) {
  return (int)(step * 1000 + from * 400 + thread * 50 + k);
}

static void* receive(void* number) {
  int t = (int)(long)number;
  for (int k = 0; k < kMessages; k++) {
    int got[8] = {0}, n = 0;
    MPI_Status s;
    MPI_Datatype spread;
    if (k % 3 == 0) {
      MPI_Message m;
      MPI_Mprobe(MPI_ANY_SOURCE, t, MPI_COMM_WORLD, &m, &s);
      MPI_Mrecv(got, 4, MPI_INT, &m, &s);
    } else if (k % 3 == 1) {
      MPI_Type_vector(4, 1, 2, MPI_INT, &spread);
      MPI_Type_commit(&spread);
      MPI_Recv(got, 1, spread, before, t, MPI_COMM_WORLD, &s);
      MPI_Type_free(&spread);
    } else {
      MPI_Recv(got, 8, MPI_INT, before, t, MPI_COMM_WORLD, &s);
    }
    MPI_Get_count(&s, MPI_INT, &n);
    STEPLOG_CHECK(s.MPI_SOURCE == before && s.MPI_TAG == t && n == 4);
    STEPLOG_CHECK(got[0] == value(before, steplog_done, t, k) && got[k % 3 == 1 ? 6 : 3] == t);
    if (k % 8 == 0) {
      MPI_Op op;
      int in = 7, out = -1, sum = -1;
      MPI_Op_create(operations[t], 1, &op);
      MPI_Reduce_local(&in, &out, 1, MPI_INT, op);
      STEPLOG_CHECK(out == t);
      MPI_Allreduce(&in, &sum, 1, MPI_INT, MPI_SUM, own[t]);
      STEPLOG_CHECK(sum == 7 * ranks);
      MPI_Op_free(&op);
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  STEPLOG_CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  before = (rank + ranks - 1) % ranks;
  for (int t = 0; t < kThreads; t++) MPI_Comm_dup(MPI_COMM_WORLD, &own[t]);
  steplog_open(argc, argv, rank);
  while (steplog_done < steplog_steps) {
    for (int k = 0; k < kMessages; k++)
      for (int t = 0; t < kThreads; t++) {
        int message[4] = {value(rank, steplog_done, t, k), 1, 2, t};
        MPI_Send(message, 4, MPI_INT, (rank + 1) % ranks, t, MPI_COMM_WORLD);
      }
    steplog_pass(steplog_pace);  // messages are waiting here
    pthread_t threads[kThreads];
    for (long t = 0; t < kThreads; t++) STEPLOG_CHECK(!pthread_create(&threads[t], NULL, receive, (void*)t));
    for (int t = 0; t < kThreads; t++) pthread_join(threads[t], NULL);
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  for (int t = 0; t < kThreads; t++) MPI_Comm_free(&own[t]);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
