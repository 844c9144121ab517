/* The MPIs' Fortran bindings (libmpi_mpifh, libmpichfort) run unmodified on the shim: calls them as
 * compiled Fortran 77 does, by address and with the constants of mpif.h. Returns the number of failed
 * expectations. Run with 2 ranks. */
#include <stdio.h>
#include <string.h>

typedef int Integer;
typedef long Address;
#if defined(FORTRAN_OPENMPI) /* mpif-handles.h, mpif-constants.h */
static Integer world = 0, integer = 7, any_source = -1, sum_op = 3, duplicate_null = 0;
enum { kStatusSize = 6, kSource = 0, kTagUb = 0 };
#else /* mpif.h */
static Integer world = 0x44000000, integer = 0x4c00041b, any_source = -2, sum_op = 0x58000003,
               duplicate_null = 0x04000000;
enum { kStatusSize = 5, kSource = 2, kTagUb = 0x64400002 };
#endif

void mpi_init_(Integer*), mpi_finalize_(Integer*), mpi_comm_rank_(Integer*, Integer*, Integer*);
void mpi_comm_size_(Integer*, Integer*, Integer*), mpi_barrier_(Integer*, Integer*);
void mpi_send_(void*, Integer*, Integer*, Integer*, Integer*, Integer*, Integer*);
void mpi_recv_(void*, Integer*, Integer*, Integer*, Integer*, Integer*, Integer*, Integer*);
void mpi_allreduce_(void*, void*, Integer*, Integer*, Integer*, Integer*, Integer*);
void mpi_isend_(void*, Integer*, Integer*, Integer*, Integer*, Integer*, Integer*, Integer*);
void mpi_wait_(Integer*, Integer*, Integer*);
void mpi_op_create_(void (*)(), Integer*, Integer*, Integer*), mpi_op_free_(Integer*, Integer*);
void mpi_comm_dup_(Integer*, Integer*, Integer*), mpi_comm_free_(Integer*, Integer*);
void mpi_comm_get_attr_(Integer*, Integer*, Address*, Integer*, Integer*);
void mpi_get_processor_name_(char*, Integer*, Integer*, Integer);

void mpi_send_init_(void*, Integer*, Integer*, Integer*, Integer*, Integer*, Integer*, Integer*);
void mpi_recv_init_(void*, Integer*, Integer*, Integer*, Integer*, Integer*, Integer*, Integer*);
void mpi_startall_(Integer*, Integer*, Integer*);
void mpi_test_(Integer*, Integer*, Integer*, Integer*), mpi_request_free_(Integer*, Integer*);
void mpi_waitall_(Integer*, Integer*, Integer*, Integer*);
void mpi_waitany_(Integer*, Integer*, Integer*, Integer*, Integer*);
void mpi_waitsome_(Integer*, Integer*, Integer*, Integer*, Integer*, Integer*);
void mpi_alltoallw_(void*, Integer*, Integer*, Integer*, void*, Integer*, Integer*, Integer*, Integer*,
                    Integer*);

static int broken;
#define EXPECT(what)                                             \
  do {                                                           \
    if (!(what)) {                                               \
      ++broken;                                                  \
      fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what); \
    }                                                            \
  } while (0)

static void multiply(Integer* in, Integer* inout, Integer* n, Integer* type) {
  EXPECT(*type == integer);
  for (int i = 0; i < *n; ++i) inout[i] *= in[i];
}

/* Requests survive each form of Wait and Test, which reads their number in the object. */
static void persistent_requests_are_kept(Integer peer) {
  Integer one = 1, two = 2, tag = 8, value = peer + 20, got = -1, error = -1, flag = 0, count = 0, index = -1;
  Integer requests[2], made[2], status[2 * kStatusSize], indices[2];
  mpi_recv_init_(&got, &one, &integer, &peer, &tag, &world, &requests[0], &error);
  EXPECT(error == 0);
  mpi_send_init_(&value, &one, &integer, &peer, &tag, &world, &requests[1], &error);
  EXPECT(error == 0 && requests[0] != requests[1]);
  memcpy(made, requests, sizeof made);
  for (int form = 0; form < 5; ++form) {
    got = -1;
    mpi_startall_(&two, requests, &error);
    EXPECT(error == 0);
    if (form == 0) {
      mpi_waitall_(&two, requests, status, &error);
    } else if (form == 1) {
      mpi_wait_(&requests[1], status, &error);
      mpi_wait_(&requests[0], status, &error);
    } else if (form == 2) {
      for (int i = 0; i < 2; ++i) {
        for (flag = 0; !flag;) mpi_test_(&requests[i], &flag, status, &error);
      }
    } else if (form == 3) {
      for (int i = 0; i < 2; ++i) {
        mpi_waitany_(&two, requests, &index, status, &error);
        EXPECT(index == 1 || index == 2);
      }
    } else {
      for (int done = 0; done < 2; done += count)
        mpi_waitsome_(&two, requests, &count, indices, status, &error);
    }
    EXPECT(error == 0 && got == 21 - peer && memcmp(made, requests, sizeof made) == 0);
  }
  for (int i = 0; i < 2; ++i) mpi_request_free_(&requests[i], &error);
  EXPECT(error == 0 && requests[0] != made[0] && requests[1] != made[1]);
}

/* The bindings read the number of datatypes from the communicator's object. */
static void each_pair_has_its_types(Integer comm, Integer rank) {
  Integer counts[2] = {1, 1}, places[2] = {0, sizeof(Integer)}, types[2] = {integer, integer}, error = -1;
  Integer out[2] = {10 * rank, 10 * rank + 1}, in[2] = {-1, -1};
  mpi_alltoallw_(out, counts, places, types, in, counts, places, types, &comm, &error);
  EXPECT(error == 0 && in[0] == rank && in[1] == 10 + rank);
}

int main(void) {
  Integer error = -1, rank = -1, size = -1, one = 1, tag = 5, peer, got = -1, value, status[kStatusSize],
          request, op;
  Integer dup, true_ = 1, result = 0, length = 0;
  char name[300];
  mpi_init_(&error);
  EXPECT(error == 0);
  mpi_comm_rank_(&world, &rank, &error);
  mpi_comm_size_(&world, &size, &error);
  EXPECT(size == 2 && (rank == 0 || rank == 1));
  peer = 1 - rank;
  value = rank + 3;
  mpi_isend_(&value, &one, &integer, &peer, &tag, &world, &request, &error);
  EXPECT(error == 0);
  mpi_recv_(&got, &one, &integer, &any_source, &tag, &world, status, &error);
  EXPECT(error == 0 && got == peer + 3 && status[kSource] == peer);
  mpi_wait_(&request, status, &error);
  EXPECT(error == 0);
  mpi_allreduce_(&value, &result, &one, &integer, &sum_op, &world, &error);
  EXPECT(result == 7);
  mpi_op_create_((void (*)())multiply, &true_, &op, &error);
  EXPECT(error == 0);
  mpi_allreduce_(&value, &result, &one, &integer, &op, &world, &error);
  EXPECT(result == 12);
  mpi_op_free_(&op, &error);
  mpi_comm_dup_(&world, &dup, &error);
  EXPECT(error == 0 && dup != world && dup != duplicate_null);
  mpi_barrier_(&dup, &error);
  EXPECT(error == 0);
  persistent_requests_are_kept(peer);
  each_pair_has_its_types(world, rank);
  each_pair_has_its_types(dup, rank);
  Integer key = kTagUb, flag = 0;
  Address tag_ub = 0;
  mpi_comm_get_attr_(&dup, &key, &tag_ub, &flag, &error);
  EXPECT(error == 0 && flag && tag_ub >= 32767);
  mpi_comm_free_(&dup, &error);
  EXPECT(error == 0);
  memset(name, 'x', sizeof name);
  mpi_get_processor_name_(name, &length, &error, 256);
  EXPECT(error == 0 && length > 0 && name[length] == ' ');
  mpi_finalize_(&error);
  EXPECT(error == 0);
  if (broken == 0 && rank == 0) printf("all expectations hold\n");
  return broken;
}
