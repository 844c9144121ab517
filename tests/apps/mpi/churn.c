// Makes and frees very many objects of one kind, which must leave nothing behind: churn
// comm|op|type|tags|early COUNT
// The first and last third of the steps are quiet (the driver measures there); the middle third makes COUNT
// objects. comm: communicators by dup. op, type: operations or datatypes, each used once. tags: messages with
// ten thousand different tags. early: operations, communicators and datatypes that are freed while a request
// uses them.
#include <mpi.h>

#include "steplog.h"

static int rank, ranks;

static void add(void* in, void* inout, int* n, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *n; i++) ((long*)inout)[i] += ((long*)in)[i];
}

static void comms(long count) {
  for (long i = 0; i < count; i++) {
    MPI_Comm c;
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    if (i % 64 == 0) {
      long one = 1, all = 0;
      MPI_Allreduce(&one, &all, 1, MPI_LONG, MPI_SUM, c);
      STEPLOG_CHECK(all == ranks);
    }
    MPI_Comm_free(&c);
    STEPLOG_CHECK(c == MPI_COMM_NULL);
  }
}

static void ops(long count) {
  for (long i = 0; i < count; i++) {
    MPI_Op op;
    MPI_Op_create(add, 1, &op);
    if (i % 64 == 0) {
      long mine = i + rank, all = 0;
      MPI_Allreduce(&mine, &all, 1, MPI_LONG, op, MPI_COMM_WORLD);
      STEPLOG_CHECK(all == ranks * i + ranks * (ranks - 1) / 2);
    }
    MPI_Op_free(&op);
    STEPLOG_CHECK(op == MPI_OP_NULL);
  }
}

static void types(long count) {
  for (long i = 0; i < count; i++) {
    MPI_Datatype t;
    int to[4] = {0}, from[4] = {1, 2, 3, 4};
    MPI_Type_vector(2, 1, 2, MPI_INT, &t);
    MPI_Type_commit(&t);
    if (i % 64 == 0) {
      MPI_Sendrecv(from, 1, t, rank, 1, to, 1, t, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      STEPLOG_CHECK(to[0] == 1 && to[1] == 0 && to[2] == 3);
    }
    MPI_Type_free(&t);
  }
}

static void tags(long count) {
  int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (long i = 0; i < count; i++) {
    int tag = (int)(i % 10000);
    long mine = i * ranks + rank, theirs = 0;
    MPI_Request r;
    MPI_Irecv(&theirs, 1, MPI_LONG, i % 3 ? before : MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &r);
    MPI_Send(&mine, 1, MPI_LONG, next, tag, MPI_COMM_WORLD);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    STEPLOG_CHECK(theirs == i * ranks + before);
  }
}

// Legal: an object may be freed while a pending operation uses it; it is destroyed when the operation
// completes.
static void early(long count) {
  int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (long i = 0; i < count; i++) {
    MPI_Op op;
    MPI_Comm c;
    MPI_Datatype pair;
    MPI_Request r[3];
    long mine = i + rank, all = 0;
    int out[2] = {rank, (int)i}, in[2] = {-1, -1};
    MPI_Op_create(add, 1, &op);
    MPI_Iallreduce(&mine, &all, 1, MPI_LONG, op, MPI_COMM_WORLD, &r[0]);
    MPI_Op_free(&op);
    // The operation that reuses the freed one's number must not be called instead of it.
    MPI_Op_create(add, 1, &op);
    MPI_Op_free(&op);
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Irecv(in, 1, pair, before, 3, c, &r[1]);
    MPI_Isend(out, 1, pair, next, 3, c, &r[2]);
    MPI_Type_free(&pair);
    MPI_Comm_free(&c);
    MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
    STEPLOG_CHECK(all == ranks * i + ranks * (ranks - 1) / 2);
    STEPLOG_CHECK(in[0] == before && in[1] == (int)i);
  }
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* what = argv[1];
  long count = atol(argv[2]);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  long from = steplog_steps / 3, to = steplog_steps - from, quiet = steplog_pace;
  while (steplog_done < steplog_steps) {
    if (steplog_done >= from && steplog_done < to) {
      long n = count / (to - from);
      if (!strcmp(what, "comm"))
        comms(n);
      else if (!strcmp(what, "op"))
        ops(n);
      else if (!strcmp(what, "type"))
        types(n);
      else if (!strcmp(what, "tags"))
        tags(n);
      else if (!strcmp(what, "early"))
        early(n);
      else
        steplog_fail("unknown: %s", what);
    }
    steplog_pace = steplog_done >= from && steplog_done < to ? 0 : quiet;
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
