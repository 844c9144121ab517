/* Rarely used MPI functions, one line of output each: generalized requests, datatype envelopes, hints, the
 * tool interface, counts beyond int, sessions without MPI_Init. The driver compares a native run with one
 * under CropDL. One rank. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int queries, frees, cancels;
static int query(void* extra, MPI_Status* status) {
  ++queries;
  MPI_Status_set_elements(status, MPI_INT, *(int*)extra);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = 3;
  status->MPI_TAG = 4;
  return MPI_SUCCESS;
}
static int released(void* extra) {
  (void)extra;
  ++frees;
  return MPI_SUCCESS;
}
static int cancelled(void* extra, int complete) {
  (void)extra;
  cancels += 1 + complete;
  return MPI_SUCCESS;
}

static void generalized(void) {
  int elements = 17, flag = 9, n = 0;
  MPI_Request request;
  MPI_Status status;
  MPI_Grequest_start(query, released, cancelled, &elements, &request);
  MPI_Test(&request, &flag, &status);
  printf("complete %d\n", flag);
  MPI_Cancel(&request);
  MPI_Grequest_complete(request);
  MPI_Wait(&request, &status);
  MPI_Get_count(&status, MPI_INT, &n);
  printf("count %d from %d tag %d, null %d; %d queries, %d frees, cancelled %d\n", n, status.MPI_SOURCE,
         status.MPI_TAG, request == MPI_REQUEST_NULL, queries, frees, cancels);
}

static void contents(void) {
  MPI_Datatype type, inner[4] = {MPI_BYTE, MPI_BYTE, MPI_BYTE, MPI_BYTE};
  int sizes[] = {8, 6}, sub[] = {4, 3}, starts[] = {1, 2}, integers[32];
  MPI_Aint addresses[4];
  MPI_Type_create_subarray(2, sizes, sub, starts, MPI_ORDER_FORTRAN, MPI_DOUBLE, &type);
  MPI_Type_get_contents(type, 32, 4, 4, integers, addresses, inner);
  printf("subarray of %d in order %d; %d\n", integers[0], integers[7],
         inner[0] == MPI_DOUBLE && inner[1] == MPI_BYTE);
  MPI_Type_free(&type);
  int distributions[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, grid[] = {1, 1};
  int arguments[] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
  MPI_Type_create_darray(1, 0, 2, sizes, distributions, arguments, grid, MPI_ORDER_C, MPI_INT, &type);
  MPI_Type_get_contents(type, 32, 4, 4, integers, addresses, inner);
  printf("darray %d %d %d order %d\n", integers[5], integers[6], integers[7], integers[11]);
  MPI_Type_free(&type);
}

static void hints(void) {
  MPI_Info info, used;
  char value[64] = "";
  int n = 0, flag = 0;
  MPI_Comm comm;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_info(comm, info);
  MPI_Comm_get_info(comm, &used);
  MPI_Info_get_nkeys(used, &n);
  MPI_Info_get(used, "mpi_assert_no_any_tag", 63, value, &flag);
  printf("%d hints, %d %s\n", n, flag, value);
  MPI_Info_free(&used);
  MPI_Info_free(&info);
  MPI_Comm_free(&comm);
#if defined(MPICH_VERSION) /* Open MPI cannot make windows on some hosts */
  int memory[4];
  MPI_Win win;
  MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_get_info(win, &used);
  MPI_Info_get_nkeys(used, &n);
  printf("%d hints of a window\n", n);
  MPI_Info_free(&used);
  MPI_Win_free(&win);
#endif
}

/* Performance variables bound to a communicator (Open MPI: the queues of messages), each on MPI_COMM_WORLD
 * and without one. */
static void bound_variables(void) {
  int n = 0, bound = 0, made = 0, got = 0, refused = 0;
  MPI_T_pvar_session session;
  MPI_T_pvar_session_create(&session);
  MPI_T_pvar_get_num(&n);
  for (int i = 0; i < n; ++i) {
    int verbosity, kind, binding, readonly, continuous, atomic, count = 0;
    char values[4096];
    MPI_T_enum choices;
    MPI_T_pvar_handle handle;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_T_pvar_get_info(i, NULL, NULL, &verbosity, &kind, NULL, &choices, NULL, NULL, &binding, &readonly,
                        &continuous, &atomic);
    if (binding != MPI_T_BIND_MPI_COMM) continue;
    ++bound;
    refused += MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &count) != MPI_SUCCESS;
    if (MPI_T_pvar_handle_alloc(session, i, &world, &handle, &count) != MPI_SUCCESS) continue;
    ++made;
    if (!continuous) MPI_T_pvar_start(session, handle);
    got += count <= 256 && MPI_T_pvar_read(session, handle, values) == MPI_SUCCESS;
    MPI_T_pvar_handle_free(session, &handle);
  }
  printf("%d variables of communicators, %d made, %d read, %d refused without one\n", bound, made, got,
         refused);
  MPI_T_pvar_session_free(&session);
}

static void tools(void) {
  int provided, n = 0, length = 0, verbosity, binding, scope;
  MPI_T_enum choices;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_T_cvar_get_num(&n);
  int results = 0;
  for (int i = 0; i < n; ++i) {
    length = 0;
    results +=
        MPI_T_cvar_get_info(i, NULL, &length, &verbosity, NULL, &choices, NULL, NULL, &binding, &scope);
  }
  printf("%d control variables, results %d\n", n > 0, results);
  bound_variables();
  MPI_T_finalize();
}

/* Uses only a session, without MPI_Init. */
static void session(void) {
#if MPI_VERSION >= 4
  MPI_Session session;
  MPI_Group group;
  MPI_Comm self;
  int ranks = 0;
  int code = MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  code += MPI_Group_from_session_pset(session, "mpi://SELF", &group);
  code += MPI_Comm_create_from_group(group, "less_used", MPI_INFO_NULL, MPI_ERRORS_RETURN, &self);
  MPI_Comm_size(self, &ranks);
  MPI_Request requests[2];
  int sent[3] = {1, 2, 3}, received[3] = {0, 0, 0};
  code += MPI_Irecv(&received[0], 1, MPI_INT, 0, 0, self, &requests[0]);
  code += MPI_Send(&sent[0], 1, MPI_INT, 0, 0, self);
  code += MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  code += MPI_Isend(&sent[1], 1, MPI_INT, 0, 1, self, &requests[0]);
  code += MPI_Recv(&received[1], 1, MPI_INT, 0, 1, self, MPI_STATUS_IGNORE);
  code += MPI_Irecv(&received[2], 1, MPI_INT, 0, 2, self, &requests[1]);
  code += MPI_Send(&sent[2], 1, MPI_INT, 0, 2, self);
  code += MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  code += MPI_Sendrecv(&sent[2], 1, MPI_INT, 0, 3, &received[0], 1, MPI_INT, 0, 3, self, MPI_STATUS_IGNORE);
  printf("messages to itself: %d %d %d\n", received[0], received[1], received[2]);
  code += MPI_Group_free(&group);
  code += MPI_Comm_free(&self);
  code += MPI_Session_finalize(&session);
  printf("session of %d, code %d\n", ranks, code);
#endif
}

static int handled;
static void counts(MPI_Comm* comm, int* code, ...) {
  (void)comm, (void)code;
  ++handled;
}
static int class_of(int code) {
  int error_class = -1;
  MPI_Error_class(code, &error_class);
  return error_class;
}

/* Where one MPI refuses what the other allows. */
static void allowed(void) {
  int n = 7, flag = 9, word = 0, key, copy, *last, code;
  char* buffer = (char*)&n;
  char value[] = "xxxxxx";
  MPI_Request request;
  MPI_Comm own, made;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  code = MPI_Buffer_detach(&buffer, &n);
  printf("detach without a buffer: fails %d, buffer %d, size %d\n", code != MPI_SUCCESS, buffer != NULL, n);
  MPI_Send_init(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
  printf("cancel before the start: %d\n", class_of(MPI_Cancel(&request)));
  MPI_Request_free(&request);

  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "long", "longer");
  code = MPI_Info_get(info, "long", 3, value, &flag);
  printf("a value that does not fit: %d, '%s', flag %d\n", class_of(code), value, flag);
#if MPI_VERSION >= 4
  n = 3;
  code = MPI_Info_get_string(info, "long", &n, value, &flag);
  printf("a string that does not fit: %d, '%s' of %d, flag %d\n", class_of(code), value, n, flag);
  printf("a string without a place: %d\n", class_of(MPI_Info_get_string(info, "long", &n, NULL, &flag)));
#endif
  MPI_Info_free(&info);

  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  MPI_Comm_get_attr(own, MPI_LASTUSEDCODE, &last, &flag);
  printf("last used code of a duplicate: %d\n", flag);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  copy = key;
  MPI_Comm_set_attr(MPI_COMM_WORLD, key, &word);
  MPI_Comm_free_keyval(&key);
  code = MPI_Comm_set_attr(own, copy, &n);
  printf("a freed key that is in use: %d, deleted %d\n", class_of(code),
         class_of(MPI_Comm_delete_attr(own, copy)));
  MPI_Comm_delete_attr(MPI_COMM_WORLD, copy);

  MPI_Errhandler handler;
  MPI_Group group;
  MPI_Comm_create_errhandler(counts, &handler);
  MPI_Comm_set_errhandler(own, handler);
  MPI_Comm_group(own, &group);
  MPI_Comm_create(own, group, &made);
  MPI_Send(&word, 1, MPI_INT, 99, 0, made);
  printf("inherited handler: called %d\n", handled);
  MPI_Comm_free(&made);
  MPI_Comm_create_group(own, group, 0, &made);
  MPI_Send(&word, 1, MPI_INT, 99, 0, made);
  printf("inherited handler of a group's: called %d\n", handled);
  MPI_Comm_free(&made);
  MPI_Group_free(&group);
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&own);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static int deleted(MPI_Comm comm, int key, void* value, void* extra) {
  int finalized = -1;
  (void)comm, (void)key, (void)extra;
  MPI_Finalized(&finalized);
  printf("%s's attribute is deleted, finalized %d\n", (const char*)value, finalized);
  return MPI_SUCCESS;
}

static void worlds(void) {
  int level, key;
  MPI_Datatype a, b;
  MPI_Query_thread(&level);
  MPI_Type_create_f90_real(6, 30, &a);
  MPI_Type_create_f90_real(6, 30, &b);
  printf("MPI_Init gives level %d; types for Fortran are equal: %d\n", level, a == b);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleted, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_WORLD, key, "the world");
  MPI_Comm_set_attr(MPI_COMM_SELF, key, "the rank");
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
  if (argc > 1 && strcmp(argv[1], "session") == 0) {
    session();
    return 0;
  }
  MPI_Init(&argc, &argv);
  generalized();
  contents();
  hints();
  allowed();
  worlds();  // before tools(): Open MPI's MPI_T_init_thread changes the level
  tools();
#if MPI_VERSION >= 4
  MPI_Datatype large;
  MPI_Count size = 0;
  int code = MPI_Type_contiguous_c((MPI_Count)3 << 30, MPI_INT, &large);
  MPI_Type_commit(&large);
  MPI_Type_size_c(large, &size);
  printf("large: %d, %lld bytes\n", code, (long long)size);
  MPI_Type_free(&large);
#endif
  MPI_Finalize();
  return 0;
}
