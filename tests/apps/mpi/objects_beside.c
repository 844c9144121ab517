/* Four threads make, use and free operations, datatypes and communicators at the same time: each has its own,
   whatever numbers the others' freed ones had. Says `wrong` with what was not its own, and `done`. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

enum { kThreads = 4, kRounds = 20000 };

#define OPERATION(n)                                                          \
  static void op##n(void* in, void* inout, int* length, MPI_Datatype* type) { \
    (void)type;                                                               \
    *(int*)inout = *(int*)in * 10 + n + (*length - *length);                  \
  }
OPERATION(0)
OPERATION(1)
OPERATION(2)
OPERATION(3)
static MPI_User_function* const operations[kThreads] = {op0, op1, op2, op3};

static void* work(void* number) {
  const int t = (int)(long)number;
  for (int round = 0; round < kRounds; ++round) {
    MPI_Op op;
    MPI_Datatype type;
    int in = round, out = -1, size = -1;
    MPI_Op_create(operations[t], 1, &op);
    MPI_Type_contiguous(t + 1, MPI_INT, &type);
    MPI_Type_size(type, &size);
    if (size != (t + 1) * (int)sizeof(int)) printf("wrong: size %d in thread %d\n", size, t);
    MPI_Type_free(&type);
    MPI_Reduce_local(&in, &out, 1, MPI_INT, op);
    if (out != round * 10 + t) printf("wrong: %d of %d in thread %d\n", out, round, t);
    MPI_Op_free(&op);
    if (round % 100 == t) {
      MPI_Comm comm;
      int same = -1, ranks = -1;
      MPI_Comm_dup(MPI_COMM_SELF, &comm);
      MPI_Comm_size(comm, &ranks);
      MPI_Comm_compare(comm, MPI_COMM_SELF, &same);
      if (ranks != 1 || same != MPI_CONGRUENT) printf("wrong: communicator of %d in thread %d\n", ranks, t);
      MPI_Comm_free(&comm);
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  if (provided != MPI_THREAD_MULTIPLE) return 1;
  pthread_t threads[kThreads];
  for (long t = 0; t < kThreads; ++t) pthread_create(&threads[t], NULL, work, (void*)t);
  for (int t = 0; t < kThreads; ++t) pthread_join(threads[t], NULL);
  printf("done\n");
  MPI_Finalize();
  return 0;
}
