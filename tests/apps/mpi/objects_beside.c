/* Four threads concurrently make, use and free operations, datatypes and communicators: each thread's
 * objects are its own, although numbers are reused. They also change and read shared objects, a type's
 * name and an info: each read sees a complete state. Prints `wrong` with each error, and `done`. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

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

static MPI_Datatype shared_type;
static MPI_Info shared_info;

/* 9 to 60 times the same letter. */
static int is_whole(const char* text) {
  size_t n = strlen(text);
  return n >= 9 && n <= 60 && strspn(text, (char[]){text[0], 0}) == n;
}

static void share(int t, int round) {
  char text[MPI_MAX_OBJECT_NAME] = "", read[MPI_MAX_INFO_VAL + 1] = "";
  int length = 0, has = 0;
  memset(text, 'a' + t, (size_t)(9 + (round * 7 + t) % 52));
  MPI_Type_set_name(shared_type, text);
  MPI_Type_get_name(shared_type, read, &length);
  if (!is_whole(read) || (size_t)length != strlen(read)) printf("wrong: name %s in thread %d\n", read, t);
  MPI_Info copy;
  MPI_Info_set(shared_info, "key", text);
  MPI_Info_dup(shared_info, &copy);
  MPI_Info_get(copy, "key", MPI_MAX_INFO_VAL, read, &has);
  if (!has || !is_whole(read)) printf("wrong: value %s in thread %d\n", read, t);
  MPI_Info_free(&copy);
}

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
    share(t, round);
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
  MPI_Type_contiguous(3, MPI_INT, &shared_type);
  MPI_Type_set_name(shared_type, "aaaaaaaaa");
  MPI_Info_create(&shared_info);
  pthread_t threads[kThreads];
  for (long t = 0; t < kThreads; ++t) pthread_create(&threads[t], NULL, work, (void*)t);
  for (int t = 0; t < kThreads; ++t) pthread_join(threads[t], NULL);
  MPI_Type_free(&shared_type);
  MPI_Info_free(&shared_info);
  printf("done\n");
  MPI_Finalize();
  return 0;
}
