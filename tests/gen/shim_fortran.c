/* The MPIs' Fortran bindings (libmpi_mpifh, libmpichfort) run unmodified on the shim: calls them as
 * compiled Fortran 77 does, by address and with the constants of mpif.h. Returns the number of failed
 * expectations. Run with 2 ranks. */
#include <stdio.h>
#include <string.h>

typedef int Integer;
typedef long Address;
#if defined(FORTRAN_OPENMPI) /* mpif-handles.h, mpif-constants.h */
static Integer world = 0, integer = 7, any_source = -1, sum_op = 3, duplicate_null = 0;
static Integer self = 1, real = 13, empty_group = 1;
enum { kStatusSize = 6, kSource = 0, kTagUb = 0 };
#else /* mpif.h */
static Integer world = 0x44000000, integer = 0x4c00041b, any_source = -2, sum_op = 0x58000003,
               duplicate_null = 0x04000000;
static Integer self = 0x44000001, real = 0x4c00041c, empty_group = 0x48000000;
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

void mpi_comm_group_(Integer*, Integer*, Integer*), mpi_group_size_(Integer*, Integer*, Integer*);
void mpi_group_incl_(Integer*, Integer*, Integer*, Integer*, Integer*), mpi_group_free_(Integer*, Integer*);
void mpi_group_difference_(Integer*, Integer*, Integer*, Integer*);
void mpi_comm_create_keyval_(void (*)(), void (*)(), Integer*, Address*, Integer*);
void mpi_comm_set_attr_(Integer*, Integer*, Address*, Integer*);
void mpi_type_create_keyval_(void (*)(), void (*)(), Integer*, Address*, Integer*);
void mpi_type_set_attr_(Integer*, Integer*, Address*, Integer*);
void mpi_type_get_attr_(Integer*, Integer*, Address*, Integer*, Integer*);
void mpi_keyval_create_(void (*)(), void (*)(), Integer*, Integer*, Integer*);
void mpi_attr_put_(Integer*, Integer*, Integer*, Integer*);
void mpi_dup_fn_(), mpi_null_delete_fn_(), mpi_comm_null_copy_fn_(), mpi_comm_null_delete_fn_();
void mpi_type_null_copy_fn_(), mpi_type_null_delete_fn_();

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

/* The bindings read a new group's number in the group's object. */
static void groups_have_numbers(Integer rank) {
  Integer all = -1, one = 1, alone = -1, again = -1, nobody = -1, size = -1, error = -1;
  mpi_comm_group_(&world, &all, &error);
  mpi_group_incl_(&all, &one, &rank, &alone, &error);
  EXPECT(error == 0 && alone != all);
  mpi_group_size_(&alone, &size, &error);
  EXPECT(error == 0 && size == 1);
  mpi_group_difference_(&alone, &all, &nobody, &error);
  EXPECT(error == 0 && nobody == empty_group);
  mpi_group_free_(&alone, &error);
  mpi_group_incl_(&all, &one, &rank, &again, &error);
  mpi_group_size_(&again, &size, &error);
  EXPECT(error == 0 && size == 1);
  mpi_group_free_(&again, &error);
  mpi_group_free_(&all, &error);
  EXPECT(error == 0);
}

/* The bindings find an attribute through a pointer in the object. */
static void predefined_objects_have_attributes(void) {
  Integer key = -1, type_key = -1, flag = 0, error = -1;
  Address state = 0, value = 11;
  mpi_comm_create_keyval_(mpi_comm_null_copy_fn_, mpi_comm_null_delete_fn_, &key, &state, &error);
  mpi_comm_set_attr_(&world, &key, &value, &error);
  value = 22;
  mpi_comm_set_attr_(&self, &key, &value, &error);
  mpi_comm_get_attr_(&world, &key, &value, &flag, &error);
  EXPECT(error == 0 && flag && value == 11);
  mpi_comm_get_attr_(&self, &key, &value, &flag, &error);
  EXPECT(error == 0 && flag && value == 22);
  mpi_type_create_keyval_(mpi_type_null_copy_fn_, mpi_type_null_delete_fn_, &type_key, &state, &error);
  value = -33;
  mpi_type_set_attr_(&integer, &type_key, &value, &error);
  value = 0;
  mpi_type_get_attr_(&integer, &type_key, &value, &flag, &error);
  EXPECT(error == 0 && flag && value == -33);
  mpi_type_get_attr_(&real, &type_key, &value, &flag, &error);
  EXPECT(error == 0 && !flag);
}

/* Callbacks of MPI 1 get default integers. */
static void old_attributes_are_copied(void) {
  Integer key = -1, state = 0, value = -5, dup = -1, flag = 0, error = -1;
  Address copy = 0;
  mpi_keyval_create_(mpi_dup_fn_, mpi_null_delete_fn_, &key, &state, &error);
  mpi_attr_put_(&world, &key, &value, &error);
  mpi_comm_dup_(&world, &dup, &error);
  mpi_comm_get_attr_(&dup, &key, &copy, &flag, &error);
  EXPECT(error == 0 && flag && copy == -5);
  mpi_comm_free_(&dup, &error);
  EXPECT(error == 0);
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
  groups_have_numbers(rank);
  predefined_objects_have_attributes();
  old_attributes_are_copied();
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
