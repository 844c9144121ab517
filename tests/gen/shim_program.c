/* What MPI programs may expect of their library, tested from outside: includes only mpi.h and is built
 * with plain mpicc. Prints each failed expectation, and returns their number. Run with 2 ranks. */
#define OMPI_OMIT_MPI1_COMPAT_DECLS 0
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int broken, rank, size;
#define EXPECT(what)                                                            \
  do {                                                                          \
    if (!(what)) {                                                              \
      ++broken;                                                                 \
      fprintf(stderr, "rank %d, line %d: not so: %s\n", rank, __LINE__, #what); \
    }                                                                           \
  } while (0)
#define OK(call) EXPECT((call) == MPI_SUCCESS)

static void before_init(void) {
  int flag = 1, version, subversion, n;
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  OK(MPI_Initialized(&flag));
  EXPECT(!flag);
  OK(MPI_Get_version(&version, &subversion));
  EXPECT(version == MPI_VERSION && subversion == MPI_SUBVERSION);
  OK(MPI_Get_library_version(text, &n));
  EXPECT((int)strlen(text) == n);
}

static void world_is_as_expected(void) {
  int flag, n = -1, *tag_ub = NULL, level;
  char name[MPI_MAX_OBJECT_NAME], host[MPI_MAX_PROCESSOR_NAME];
  EXPECT(size == 2 && rank >= 0 && rank < 2);
  OK(MPI_Comm_size(MPI_COMM_SELF, &n));
  EXPECT(n == 1);
  OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &n));
  EXPECT(strcmp(name, "MPI_COMM_WORLD") == 0 && n == 14);
  OK(MPI_Get_processor_name(host, &n));
  EXPECT(n > 0 && (int)strlen(host) == n);
  OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_ub, &flag));
  EXPECT(flag && *tag_ub >= 32767);
  int* host_rank = NULL;
  OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &host_rank, &flag));
  EXPECT(!flag || *host_rank == MPI_PROC_NULL || *host_rank >= 0);
  OK(MPI_Query_thread(&level));
  EXPECT(level >= MPI_THREAD_SINGLE && level <= MPI_THREAD_MULTIPLE);
  double a = MPI_Wtime(), b = MPI_Wtime();
  EXPECT(b >= a && MPI_Wtick() > 0);
}

static void messages_have_their_status(void) {
  int value = 40 + rank, got = 0, n = -1, flag;
  MPI_Status s;
  memset(&s, 0x55, sizeof s);
  s.MPI_ERROR = 77;
  OK(MPI_Sendrecv(&value, 1, MPI_INT, 1 - rank, 5, &got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                  MPI_COMM_WORLD, &s));
  EXPECT(got == 41 - rank && s.MPI_SOURCE == 1 - rank && s.MPI_TAG == 5);
  OK(MPI_Get_count(&s, MPI_INT, &n));
  EXPECT(n == 1);
  OK(MPI_Get_count(&s, MPI_DOUBLE, &n));
  EXPECT(n == MPI_UNDEFINED);
  OK(MPI_Test_cancelled(&s, &flag));
  EXPECT(!flag);
  OK(MPI_Recv(&got, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &s));
  EXPECT(s.MPI_SOURCE == MPI_PROC_NULL && s.MPI_TAG == MPI_ANY_TAG);
  OK(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
  OK(MPI_Status_set_elements(&s, MPI_INT, 12));
  OK(MPI_Get_elements(&s, MPI_INT, &n));
  EXPECT(n == 12);
}

static void many_requests_complete(void) {
  enum { kMany = 100 };
  int out[kMany], in[kMany], left, index;
  MPI_Request r[2 * kMany];
  MPI_Status s[2 * kMany];
  for (int i = 0; i < kMany; ++i) {
    out[i] = 1000 * rank + i;
    in[i] = -1;
    OK(MPI_Irecv(&in[i], 1, MPI_INT, 1 - rank, i, MPI_COMM_WORLD, &r[i]));
    OK(MPI_Isend(&out[i], 1, MPI_INT, 1 - rank, i, MPI_COMM_WORLD, &r[kMany + i]));
  }
  OK(MPI_Waitall(2 * kMany, r, s));
  for (int i = 0; i < kMany; ++i) {
    EXPECT(in[i] == 1000 * (1 - rank) + i && s[i].MPI_TAG == i && r[i] == MPI_REQUEST_NULL);
  }
  OK(MPI_Waitany(2 * kMany, r, &index, MPI_STATUS_IGNORE));
  EXPECT(index == MPI_UNDEFINED);
  OK(MPI_Testsome(3, r, &left, &index, MPI_STATUSES_IGNORE));
  EXPECT(left == MPI_UNDEFINED);
  OK(MPI_Irecv(in, 1, MPI_INT, 1 - rank, 9999, MPI_COMM_WORLD, r));
  OK(MPI_Cancel(r));
  OK(MPI_Wait(r, s));
  OK(MPI_Test_cancelled(s, &index));
  EXPECT(index);
  /* matched probe */
  MPI_Message m;
  int flag = 0;
  OK(MPI_Isend(out, 2, MPI_INT, 1 - rank, 3, MPI_COMM_WORLD, r));
  while (!flag) OK(MPI_Improbe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &flag, &m, s));
  EXPECT(m != MPI_MESSAGE_NULL);
  OK(MPI_Mrecv(in, 2, MPI_INT, &m, s));
  EXPECT(m == MPI_MESSAGE_NULL && in[1] == 1000 * (1 - rank) + 1);
  OK(MPI_Wait(r, MPI_STATUS_IGNORE));
}

static void collectives_give_results(void) {
  int one = rank + 1, sum = 0, all[2] = {-1, -1}, inplace = rank + 1;
  OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  EXPECT(sum == 3);
  OK(MPI_Allreduce(MPI_IN_PLACE, &inplace, 1, MPI_INT, MPI_PROD, MPI_COMM_WORLD));
  EXPECT(inplace == 2);
  OK(MPI_Allgather(&one, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
  EXPECT(all[0] == 1 && all[1] == 2);
  struct {
    double value;
    int where;
  } mine = {rank, rank}, best;
  OK(MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD));
  EXPECT(best.where == 1);
  int counts[2] = {1, 1}, displacements[2] = {0, 4}, out[2] = {10 * rank, 10 * rank + 1};
  MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  OK(MPI_Alltoallw(out, counts, displacements, types, all, counts, displacements, types, MPI_COMM_WORLD));
  EXPECT(all[0] == rank && all[1] == 10 + rank);
  MPI_Request r;
  OK(MPI_Ialltoallw(out, counts, displacements, types, all, counts, displacements, types, MPI_COMM_WORLD,
                    &r));
  OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
  EXPECT(all[0] == rank && all[1] == 10 + rank);
  sum = 0;
  OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r));
  OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
  EXPECT(sum == 3 && r == MPI_REQUEST_NULL);
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* MPI ignores a handle there, so that a variable which was never set is as good as any. */
static MPI_Datatype unset_type(void) {
  MPI_Datatype t;
  memset(&t, 0x5a, sizeof t);
  return t;
}
static void ignored_handles_may_be_anything(void) {
  const MPI_Datatype unset = unset_type(), types[2] = {MPI_INT, MPI_INT},
                     at_root = rank == 0 ? MPI_INT : unset, at_other = rank == 0 ? unset : MPI_INT;
  int mine = 10 + rank, all[2] = {-1, -1}, two[2] = {10 * rank, 10 * rank + 1}, ones[2] = {1, 1},
      each[2] = {0, 1}, bytes[2] = {0, 4};
  MPI_Request r;
  OK(MPI_Gather(&mine, 1, MPI_INT, all, 1, at_root, 0, MPI_COMM_WORLD));
  EXPECT(rank == 1 || (all[0] == 10 && all[1] == 11));
  OK(MPI_Scatter(all, 1, at_root, rank == 0 ? MPI_IN_PLACE : &mine, 1, at_other, 0, MPI_COMM_WORLD));
  EXPECT(mine == 10 + rank);
  OK(MPI_Igatherv(rank == 0 ? MPI_IN_PLACE : &mine, 1, at_other, all, ones, each, at_root, 0, MPI_COMM_WORLD,
                  &r));
  OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
  OK(MPI_Iscatterv(all, ones, each, at_root, &mine, 1, MPI_INT, 0, MPI_COMM_WORLD, &r));
  OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
  EXPECT(mine == 10 + rank);
  all[rank] = mine;
  OK(MPI_Allgather(MPI_IN_PLACE, 0, unset, all, 1, MPI_INT, MPI_COMM_WORLD));
  EXPECT(all[0] == 10 && all[1] == 11);
  OK(MPI_Alltoall(MPI_IN_PLACE, 0, unset, two, 1, MPI_INT, MPI_COMM_WORLD));
  EXPECT(two[0] == rank && two[1] == 10 + rank);
  /* The same array of types, of which one use is ignored. */
  OK(MPI_Alltoallw(MPI_IN_PLACE, ones, bytes, types, two, ones, bytes, types, MPI_COMM_WORLD));
  EXPECT(two[0] == 10 * rank && two[1] == 10 * rank + 1);
  MPI_Comm inter;
  OK(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 5, &inter));
  OK(MPI_Gather(&mine, 1, at_other, all, 1, at_root, rank == 0 ? MPI_ROOT : 0, inter));
  EXPECT(rank == 1 || all[0] == 11);
  OK(MPI_Scatter(all, 1, at_root, &mine, 1, at_other, rank == 0 ? MPI_ROOT : 0, inter));
  EXPECT(mine == 10 + rank);
  OK(MPI_Gather(&mine, 1, unset, all, 1, unset, MPI_PROC_NULL, inter));
  OK(MPI_Comm_free(&inter));
}

static int op_calls;
static void take_larger(void* in, void* inout, int* n, MPI_Datatype* type) {
  ++op_calls;
  EXPECT(*type == MPI_INT);
  for (int i = 0; i < *n; ++i) {
    if (((int*)in)[i] > ((int*)inout)[i]) ((int*)inout)[i] = ((int*)in)[i];
  }
}
static void operations_are_called(void) {
  MPI_Op op;
  int mine[3] = {rank, 5 - rank, 7}, got[3], commutes = -1;
  OK(MPI_Op_create(take_larger, 1, &op));
  OK(MPI_Op_commutative(op, &commutes));
  EXPECT(commutes == 1);
  OK(MPI_Allreduce(mine, got, 3, MPI_INT, op, MPI_COMM_WORLD));
  EXPECT(got[0] == 1 && got[1] == 5 && got[2] == 7);
  OK(MPI_Reduce_local(mine, got, 3, MPI_INT, op));
  EXPECT(op_calls > 0);
  OK(MPI_Op_free(&op));
  EXPECT(op == MPI_OP_NULL);
}

static int copied, deleted;
static int copy(MPI_Comm comm, int keyval, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)keyval;
  EXPECT(extra == &copied);
  ++copied;
  *(void**)out = (char*)in + 1;
  *flag = 1;
  return MPI_SUCCESS;
}
static int forget(MPI_Comm comm, int keyval, void* value, void* extra) {
  (void)comm, (void)keyval, (void)value;
  EXPECT(extra == &copied);
  ++deleted;
  return MPI_SUCCESS;
}
static void attributes_are_copied_and_deleted(void) {
  int keyval, shy, flag;
  char base[4], *got = NULL;
  MPI_Comm dup;
  OK(MPI_Comm_create_keyval(copy, forget, &keyval, &copied));
  OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &shy, NULL));
  OK(MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, base));
  OK(MPI_Comm_set_attr(MPI_COMM_WORLD, shy, base));
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
  OK(MPI_Comm_get_attr(dup, keyval, &got, &flag));
  EXPECT(flag && got == base + 1 && copied == 1);
  OK(MPI_Comm_get_attr(dup, shy, &got, &flag));
  EXPECT(!flag);
  OK(MPI_Comm_free(&dup));
  EXPECT(dup == MPI_COMM_NULL && deleted == 1);
  OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval));
  EXPECT(deleted == 2);
  OK(MPI_Comm_free_keyval(&keyval));
  EXPECT(keyval == MPI_KEYVAL_INVALID);
  OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, shy));
  OK(MPI_Comm_free_keyval(&shy));
}

static int handled, handled_code;
static void handler(MPI_Comm* comm, int* code, ...) {
  EXPECT(*comm != MPI_COMM_NULL);
  ++handled;
  handled_code = *code;
}
static void errors_go_to_their_handler(void) {
  MPI_Comm dup;
  MPI_Errhandler h, got;
  int value = 0, c, n, mine, code;
  char text[MPI_MAX_ERROR_STRING];
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
  OK(MPI_Comm_create_errhandler(handler, &h));
  OK(MPI_Comm_set_errhandler(dup, h));
  OK(MPI_Comm_get_errhandler(dup, &got));
  EXPECT(got == h);
  OK(MPI_Errhandler_free(&got));
  OK(MPI_Errhandler_free(&h));
  EXPECT(h == MPI_ERRHANDLER_NULL);
  int r = MPI_Send(&value, 1, MPI_INT, 77, 0, dup);
  OK(MPI_Error_class(r, &c));
  EXPECT(c == MPI_ERR_RANK && handled == 1 && handled_code == r);
  MPI_Comm inherits;
  OK(MPI_Comm_dup(dup, &inherits));
  EXPECT(MPI_Send(&value, -1, MPI_INT, 0, 0, inherits) != MPI_SUCCESS);
  EXPECT(handled == 2);
  OK(MPI_Comm_free(&inherits));
  OK(MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN));
  r = MPI_Bcast(&value, 1, MPI_INT, 99, dup);
  OK(MPI_Error_class(r, &c));
  EXPECT(c == MPI_ERR_ROOT || c == MPI_ERR_RANK);
  OK(MPI_Comm_free(&dup));
  OK(MPI_Error_string(MPI_ERR_TRUNCATE, text, &n));
  EXPECT(strstr(text, "truncated") && (int)strlen(text) == n);
  OK(MPI_Add_error_class(&mine));
  OK(MPI_Add_error_code(mine, &code));
  OK(MPI_Add_error_string(code, "the cat sat on the node"));
  OK(MPI_Error_class(code, &c));
  OK(MPI_Error_string(code, text, &n));
  EXPECT(c == mine && strcmp(text, "the cat sat on the node") == 0);
}

static void infos_are_lists(void) {
  MPI_Info info, dup;
  char value[64];
  int flag, n;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "one", "1"));
  OK(MPI_Info_set(info, "two", "two"));
  OK(MPI_Info_dup(info, &dup));
  OK(MPI_Info_delete(info, "one"));
  OK(MPI_Info_get_nkeys(info, &n));
  EXPECT(n == 1);
  OK(MPI_Info_get(dup, "one", 63, value, &flag));
  EXPECT(flag && strcmp(value, "1") == 0);
  OK(MPI_Info_get(info, "one", 63, value, &flag));
  EXPECT(!flag);
  OK(MPI_Info_get_valuelen(info, "two", &n, &flag));
  EXPECT(flag && n == 3);
  OK(MPI_Info_free(&info));
  OK(MPI_Info_free(&dup));
  EXPECT(info == MPI_INFO_NULL);
}

static void datatypes_describe_themselves(void) {
  MPI_Datatype v, s, got[1];
  int ni, na, nd, combiner, ints[3], n;
  MPI_Aint addresses[1], lb, extent;
  char name[MPI_MAX_OBJECT_NAME];
  OK(MPI_Type_vector(3, 2, 4, MPI_INT, &v));
  OK(MPI_Type_get_envelope(v, &ni, &na, &nd, &combiner));
  EXPECT(ni == 3 && na == 0 && nd == 1 && combiner == MPI_COMBINER_VECTOR);
  OK(MPI_Type_get_contents(v, 3, 0, 1, ints, addresses, got));
  EXPECT(ints[0] == 3 && ints[1] == 2 && ints[2] == 4 && got[0] == MPI_INT);
  OK(MPI_Type_size(v, &n));
  EXPECT(n == 24);
  OK(MPI_Type_get_extent(v, &lb, &extent));
  EXPECT(lb == 0 && extent == 40);
  int blocks[2] = {1, 1};
  MPI_Aint at[2] = {0, 8};
  MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE};
  OK(MPI_Type_create_struct(2, blocks, at, parts, &s));
  OK(MPI_Type_commit(&s));
  OK(MPI_Type_set_name(s, "pair"));
  OK(MPI_Type_get_name(s, name, &n));
  EXPECT(strcmp(name, "pair") == 0);
  OK(MPI_Type_get_name(MPI_INT, name, &n));
  EXPECT(strcmp(name, "MPI_INT") == 0);
  struct {
    int a;
    double b;
  } x = {rank, 0.5}, y = {-1, 0};
  OK(MPI_Sendrecv(&x, 1, s, 1 - rank, 0, &y, 1, s, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT(y.a == 1 - rank && y.b == 0.5);
  // Packing more than an int can count fails. The memory is not touched.
  MPI_Datatype large;
  int class = MPI_SUCCESS;
  OK(MPI_Type_contiguous(1 << 20, MPI_INT, &large));
  OK(MPI_Type_commit(&large));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Error_class(MPI_Sendrecv_replace(&x, (1 << 10) + 1, large, 1 - rank, 0, 1 - rank, 0, MPI_COMM_WORLD,
                                       MPI_STATUS_IGNORE),
                  &class);
  EXPECT(class == MPI_ERR_COUNT);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  OK(MPI_Type_free(&large));
  int sizes[2] = {4, 4}, subsizes[2] = {2, 2}, starts[2] = {1, 1};
  MPI_Datatype sub;
  // A constant of the other MPI is invalid here: MPI_ORDER_C is 0 in one MPI and 56 in the other.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  EXPECT(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C == 0 ? 56 : 0, MPI_INT, &sub) !=
         MPI_SUCCESS);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_INT, &sub));
  OK(MPI_Type_size(sub, &n));
  EXPECT(n == 16);
  OK(MPI_Type_free(&sub));
  OK(MPI_Type_free(&s));
  OK(MPI_Type_free(&v));
  EXPECT(v == MPI_DATATYPE_NULL);
  OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &s));
  EXPECT(s != MPI_DATATYPE_NULL);
}

static void communicators_and_groups(void) {
  MPI_Comm half, none, cart, dist;
  MPI_Group world, pair, other;
  int n, r[2] = {0, MPI_PROC_NULL}, t[2], result, source, destination, topology;
  OK(MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &half));
  OK(MPI_Comm_size(half, &n));
  EXPECT(n == 1);
  OK(MPI_Comm_compare(half, MPI_COMM_SELF, &result));
  EXPECT(result == MPI_CONGRUENT);
  OK(MPI_Comm_free(&half));
  OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &none));
  EXPECT((none == MPI_COMM_NULL) == (rank == 0));
  if (none != MPI_COMM_NULL) OK(MPI_Comm_free(&none));
  OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &half));
  OK(MPI_Comm_size(half, &n));
  EXPECT(n == 2);
  OK(MPI_Comm_free(&half));
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  OK(MPI_Group_incl(world, 1, &rank, &pair));
  OK(MPI_Group_rank(pair, &n));
  EXPECT(n == 0);
  OK(MPI_Group_translate_ranks(world, 2, r, pair, t));
  EXPECT(t[0] == (rank == 0 ? 0 : MPI_UNDEFINED) && t[1] == MPI_PROC_NULL);
  OK(MPI_Group_difference(world, world, &other));
  OK(MPI_Group_size(other, &n));
  EXPECT(n == 0);
  OK(MPI_Group_compare(other, MPI_GROUP_EMPTY, &result));
  EXPECT(result == MPI_IDENT);
  MPI_Group_free(&other);
  OK(MPI_Group_free(&pair));
  OK(MPI_Group_free(&world));
  EXPECT(world == MPI_GROUP_NULL);

  int dims[1] = {2}, periods[1] = {0};
  OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &cart));
  OK(MPI_Topo_test(cart, &topology));
  EXPECT(topology == MPI_CART);
  OK(MPI_Topo_test(MPI_COMM_WORLD, &topology));
  EXPECT(topology == MPI_UNDEFINED);
  OK(MPI_Cart_shift(cart, 0, 1, &source, &destination));
  EXPECT(source == (rank == 0 ? MPI_PROC_NULL : 0) && destination == (rank == 0 ? 1 : MPI_PROC_NULL));
  int counts[2] = {1, 1}, out[2] = {rank * 10, rank * 10 + 1}, in[2] = {-1, -1};
  MPI_Aint at[2] = {0, 4};
  MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  OK(MPI_Neighbor_alltoallw(out, counts, at, types, in, counts, at, types, cart));
  EXPECT(rank == 0 ? in[1] == 10 : in[0] == 1);
  OK(MPI_Comm_free(&cart));
  int neighbor[1] = {1 - rank}, in_degree, out_degree, weighted;
  OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, neighbor, MPI_UNWEIGHTED, 1, neighbor, MPI_UNWEIGHTED,
                                    MPI_INFO_NULL, 0, &dist));
  OK(MPI_Dist_graph_neighbors_count(dist, &in_degree, &out_degree, &weighted));
  EXPECT(in_degree == 1 && out_degree == 1 && !weighted);
  OK(MPI_Comm_free(&dist));
}

static void what_cannot_be_saved_still_works(const char* folder) {
  MPI_Win win;
  /* aligned, since Debian 12's MPICH over UCX shifts a window that does not start at a multiple of 16 */
  static int memory __attribute__((aligned(64))) = -1;
  int value = rank + 100, flag, *model = NULL;
  void* base = NULL;
  OK(MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
  OK(MPI_Put(&value, 1, MPI_INT, 1 - rank, 0, 1, MPI_INT, win));
  OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
  EXPECT(memory == 101 - rank);
  OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
  EXPECT(flag && base == &memory);
  OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag));
  EXPECT(flag && (*model == MPI_WIN_UNIFIED || *model == MPI_WIN_SEPARATE));
  OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1 - rank, 0, win));
  OK(MPI_Get(&value, 1, MPI_INT, 1 - rank, 0, 1, MPI_INT, win));
  OK(MPI_Win_unlock(1 - rank, win));
  EXPECT(value == 100 + rank);
  value = -1;
  OK(MPI_Win_lock(MPI_LOCK_SHARED, 1 - rank, 0, win));
  OK(MPI_Get_accumulate(NULL, 0, unset_type(), &value, 1, MPI_INT, 1 - rank, 0, 1, MPI_INT, MPI_NO_OP, win));
  OK(MPI_Win_unlock(1 - rank, win));
  EXPECT(value == 100 + rank);
  OK(MPI_Win_free(&win));
  EXPECT(win == MPI_WIN_NULL);

  MPI_File file;
  MPI_Status s;
  char path[4096];
  int n = 0, amode = 0, back = -1;
  MPI_Offset bytes = 0;
  MPI_Info hints;
  snprintf(path, sizeof path, "%s/shim_program.data", folder);
  OK(MPI_Info_create(&hints));
  OK(MPI_Info_set(hints, "access_style", "write_once"));
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, hints,
                   &file));
  OK(MPI_Info_free(&hints));
  OK(MPI_File_get_amode(file, &amode));
  EXPECT(amode == (MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE));
  OK(MPI_File_write_at_all(file, rank * (MPI_Offset)sizeof rank, &rank, 1, MPI_INT, &s));
  OK(MPI_Get_count(&s, MPI_INT, &n));
  EXPECT(n == 1);
  OK(MPI_File_sync(file));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_File_read_at(file, (1 - rank) * (MPI_Offset)sizeof rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT(back == 1 - rank);
  OK(MPI_File_get_size(file, &bytes));
  EXPECT(bytes == 8);
  OK(MPI_File_close(&file));
  EXPECT(file == MPI_FILE_NULL);
  EXPECT(MPI_File_open(MPI_COMM_SELF, "/nowhere/at/all", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) !=
         MPI_SUCCESS);

  MPI_Request r[2];
  int in = -1;
  OK(MPI_Send_init(&rank, 1, MPI_INT, 1 - rank, 8, MPI_COMM_WORLD, &r[0]));
  OK(MPI_Recv_init(&in, 1, MPI_INT, 1 - rank, 8, MPI_COMM_WORLD, &r[1]));
  for (int i = 0; i < 3; ++i) {
    in = -1;
    OK(MPI_Startall(2, r));
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    EXPECT(in == 1 - rank && r[0] != MPI_REQUEST_NULL);
  }
  OK(MPI_Request_free(&r[0]));
  OK(MPI_Request_free(&r[1]));

  MPI_Comm inter, merged;
  OK(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 4, &inter));
  OK(MPI_Comm_remote_size(inter, &n));
  EXPECT(n == 1);
  OK(MPI_Bcast(&value, 1, MPI_INT, rank == 0 ? MPI_ROOT : 0, inter));
  OK(MPI_Intercomm_merge(inter, rank, &merged));
  OK(MPI_Comm_size(merged, &n));
  EXPECT(n == 2);
  OK(MPI_Comm_free(&merged));
  OK(MPI_Comm_free(&inter));

  int provided, variables = -1;
  OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
  OK(MPI_T_cvar_get_num(&variables));
  EXPECT(variables >= 0);
  if (variables > 0) {
    char name[256];
    int length = sizeof name, verbosity = -12345, bind = -12345, scope = -12345;
    MPI_Datatype type;
    MPI_T_enum set;
    OK(MPI_T_cvar_get_info(0, name, &length, &verbosity, &type, &set, NULL, NULL, &bind, &scope));
    EXPECT(bind == MPI_T_BIND_NO_OBJECT && verbosity != -12345 && type != MPI_DATATYPE_NULL);
  }
  OK(MPI_T_finalize());
}

static void fortran_integers_come_back(void) {
  MPI_Comm dup;
  MPI_Fint f[sizeof(MPI_Status) / sizeof(MPI_Fint)];
  MPI_Status s, t;
  EXPECT(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
  EXPECT(MPI_Type_f2c(MPI_Type_c2f(MPI_DOUBLE)) == MPI_DOUBLE);
  EXPECT(MPI_Op_f2c(MPI_Op_c2f(MPI_MAX)) == MPI_MAX);
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
  EXPECT(MPI_Comm_f2c(MPI_Comm_c2f(dup)) == dup && dup != MPI_COMM_WORLD);
  OK(MPI_Comm_free(&dup));
  memset(&s, 0, sizeof s);
  s.MPI_SOURCE = 3;
  OK(MPI_Status_c2f(&s, f));
  OK(MPI_Status_f2c(f, &t));
  EXPECT(t.MPI_SOURCE == 3);
}

static void memory_is_the_programs(void) {
  char* p = NULL;
  MPI_Aint a, b;
  OK(MPI_Alloc_mem(10000, MPI_INFO_NULL, &p));
  memset(p, 1, 10000);
  OK(MPI_Get_address(p, &a));
  OK(MPI_Get_address(p + 5, &b));
  EXPECT(MPI_Aint_diff(b, a) == 5 && MPI_Aint_add(a, 5) == b);
  OK(MPI_Free_mem(p));
  char buffer[1000 + MPI_BSEND_OVERHEAD], *detached;
  int n, in = 0;
  OK(MPI_Buffer_attach(buffer, sizeof buffer));
  OK(MPI_Bsend(&rank, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD));
  OK(MPI_Recv(&in, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT(in == 1 - rank);
  OK(MPI_Buffer_detach(&detached, &n));
  EXPECT(detached == buffer && n == (int)sizeof buffer);
}

static int finalized_attribute(MPI_Comm comm, int keyval, void* value, void* extra) {
  int flag = 1;
  (void)comm, (void)keyval, (void)extra;
  OK(MPI_Finalized(&flag));
  EXPECT(!flag);
  ++*(int*)value;
  return MPI_SUCCESS;
}

int main(int argc, char** argv) {
  static int at_end;
  int provided, keyval, flag = 0;
  before_init();
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
  EXPECT(provided >= MPI_THREAD_SINGLE);
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
  if (argc > 2 && strcmp(argv[2], "fatal") == 0) {
    MPI_Send(&rank, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    printf("not so: MPI_ERRORS_ARE_FATAL let the program go on\n");
    return 1;
  }
  world_is_as_expected();
  messages_have_their_status();
  many_requests_complete();
  collectives_give_results();
  ignored_handles_may_be_anything();
  operations_are_called();
  attributes_are_copied_and_deleted();
  errors_go_to_their_handler();
  infos_are_lists();
  datatypes_describe_themselves();
  communicators_and_groups();
  fortran_integers_come_back();
  memory_is_the_programs();
  what_cannot_be_saved_still_works(argc > 1 ? argv[1] : ".");
  OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalized_attribute, &keyval, NULL));
  OK(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &at_end));
  OK(MPI_Finalize());
  EXPECT(at_end == 1);
  OK(MPI_Finalized(&flag));
  EXPECT(flag);
  if (broken == 0 && rank == 0) printf("all expectations hold\n");
  return broken;
}
