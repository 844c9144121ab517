/* Calls MPI with null pointers, null handles, wrong keys, indices and codes, and prints the error class
 * that each call returns. The class depends on the MPI; the driver compares a native run with one under
 * CropDL. Calls that crash natively are left out. One rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const char* call, int code) {
  int error_class = -1;
  MPI_Error_class(code, &error_class);
  printf("%s: %d\n", call, error_class);
}
#define CALL(...) say(#__VA_ARGS__, __VA_ARGS__)

static MPI_Comm early;
static int calls;
static void counts_and_forgives(MPI_File* file, int* code, ...) {
  (void)file;
  ++calls;
  *code = MPI_SUCCESS;
}
#if defined(OPEN_MPI)
/* The function that Open MPI's C++ and Fortran libraries call for a wrong argument. */
int ompi_errhandler_invoke(MPI_Errhandler handler, void* object, int type, int code, const char* message);
static MPI_Comm raised_on;
static void notes(MPI_Comm* comm, int* code, ...) {
  (void)code;
  raised_on = *comm;
}
#endif
static int fails(MPI_Comm comm, int key, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)key, (void)extra, (void)in, (void)out;
  *flag = 1;
  return MPI_ERR_OTHER;
}
static int type_fails(MPI_Datatype type, int key, void* extra, void* in, void* out, int* flag) {
  (void)type, (void)key, (void)extra, (void)in, (void)out;
  *flag = 1;
  return MPI_ERR_OTHER;
}

static void codes(void) {
  int a, b, n = 7, *last, flag;
  char text[MPI_MAX_ERROR_STRING] = "x";
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
  printf("last %d of %d\n", *last, MPI_ERR_LASTCODE);
  MPI_Add_error_class(&a);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
  printf("class %d, last %d\n", a, *last);
  MPI_Add_error_code(a, &b);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
  printf("code %d, last %d\n", b, *last);
  MPI_Add_error_code(MPI_ERR_COMM, &b);
  printf("code %d\n", b);
  MPI_Error_string(a, text, &n);
  printf("text '%s' %d\n", text, n);
  for (int i = 0; i <= MPI_ERR_WIN; ++i) {
    MPI_Error_string(i, text, &n);
    printf("text of %d '%s'\n", i, text);
  }
  CALL(MPI_Add_error_class(NULL));
  int i, made;
  for (i = 0; i < 10000 && MPI_Add_error_code(a, &made) == MPI_SUCCESS; ++i) continue;
  printf("%d codes\n", i);
  for (i = 0; i < 10000 && MPI_Add_error_class(&made) == MPI_SUCCESS; ++i) continue;
  printf("%d classes\n", i);
  CALL(MPI_Error_class(123456, &n));
}

static void handlers(void) {
  MPI_Errhandler e = MPI_ERRHANDLER_NULL;
  CALL(MPI_Comm_set_errhandler(MPI_COMM_WORLD, e));
  CALL(MPI_Errhandler_free(&e));
  CALL(MPI_Errhandler_free(NULL));
  CALL(MPI_Comm_get_errhandler(MPI_COMM_NULL, &e));
  CALL(MPI_Comm_set_errhandler(MPI_COMM_NULL, MPI_ERRORS_RETURN));
  CALL(MPI_Comm_call_errhandler(MPI_COMM_NULL, 5));
  CALL(MPI_Comm_get_errhandler(MPI_COMM_WORLD, NULL));
  CALL(MPI_Win_get_errhandler(MPI_WIN_NULL, &e));
  CALL(MPI_Win_set_errhandler(MPI_WIN_NULL, MPI_ERRORS_RETURN));
  CALL(MPI_Win_call_errhandler(MPI_WIN_NULL, 5));
  CALL(MPI_File_get_errhandler(MPI_FILE_NULL, &e));
  CALL(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRHANDLER_NULL));
  CALL(MPI_Win_create_errhandler(NULL, &e));
  CALL(MPI_Comm_create_errhandler(NULL, &e));
  MPI_File file;
  MPI_File_create_errhandler(counts_and_forgives, &e);
  MPI_File_set_errhandler(MPI_FILE_NULL, e);
  CALL(MPI_File_open(MPI_COMM_SELF, "/nowhere/nothing", MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  printf("%d calls\n", calls);
#if defined(OPEN_MPI)
  MPI_Comm_create_errhandler(notes, &e);
  CALL(ompi_errhandler_invoke(e, MPI_COMM_SELF, 1, MPI_ERR_COUNT, "a binding"));
  printf("on the object: %d\n", raised_on == MPI_COMM_SELF);
#endif
}

static void attributes(void) {
  int key = MPI_TAG_UB, flag, *value;
  CALL(MPI_Comm_get_attr(MPI_COMM_NULL, MPI_TAG_UB, &value, &flag));
  CALL(MPI_Comm_set_attr(MPI_COMM_NULL, MPI_TAG_UB, NULL));
  CALL(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, NULL));
  CALL(MPI_Comm_delete_attr(MPI_COMM_WORLD, MPI_TAG_UB));
  CALL(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, &value, &flag));
  CALL(MPI_Comm_free_keyval(&key));
  key = MPI_KEYVAL_INVALID;
  CALL(MPI_Comm_free_keyval(&key));
  CALL(MPI_Comm_free_keyval(NULL));
  CALL(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
  CALL(MPI_Comm_delete_attr(MPI_COMM_WORLD, key));
  CALL(MPI_Type_get_attr(MPI_DATATYPE_NULL, key, &value, &flag));
  CALL(MPI_Type_set_attr(MPI_INT, key, NULL));
  CALL(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, NULL));
  MPI_Comm from, dup = MPI_COMM_WORLD;
  MPI_Comm_dup(MPI_COMM_SELF, &from);
  MPI_Comm_create_keyval(fails, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  MPI_Comm_set_attr(from, key, NULL);
  CALL(MPI_Comm_dup(from, &dup));
  printf("null: %d\n", dup == MPI_COMM_NULL);
  int again = key;
  CALL(MPI_Comm_free_keyval(&key));
  int third = again;
  CALL(MPI_Comm_free_keyval(&again)); /* still attached to `from` */
  CALL(MPI_Comm_free_keyval(&third));
  MPI_Datatype made = MPI_INT, source;
  MPI_Type_contiguous(2, MPI_INT, &source);
  MPI_Type_create_keyval(type_fails, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
  MPI_Type_set_attr(source, key, NULL);
  CALL(MPI_Type_dup(source, &made));
  printf("null: %d\n", made == MPI_DATATYPE_NULL);
}

static void information(void) {
  MPI_Info info = MPI_INFO_NULL;
  char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
  int n, flag;
  CALL(MPI_Info_get_nkeys(info, &n));
  CALL(MPI_Info_free(&info));
  CALL(MPI_Info_create(NULL));
  MPI_Info_create(&info);
  CALL(MPI_Info_get_nthkey(info, 0, key));
  CALL(MPI_Info_get_nthkey(info, -1, key));
  CALL(MPI_Info_delete(info, "nothing"));
  CALL(MPI_Info_set(info, NULL, "x"));
  CALL(MPI_Info_set(info, "x", NULL));
  CALL(MPI_Info_set(info, "", ""));
  CALL(MPI_Info_get(info, "x", -1, value, &flag));
  CALL(MPI_Info_get(info, NULL, 5, value, &flag));
  CALL(MPI_Info_get(info, "x", 5, NULL, &flag));
  CALL(MPI_Info_dup(info, NULL));
  CALL(MPI_Info_dup(MPI_INFO_NULL, &info));
  CALL(MPI_Comm_get_info(MPI_COMM_NULL, &info));
  CALL(MPI_Comm_get_info(MPI_COMM_WORLD, NULL));
  CALL(MPI_Comm_set_info(MPI_COMM_NULL, MPI_INFO_NULL));
}

static void objects(void) {
  int n;
  char text[MPI_MAX_OBJECT_NAME];
  MPI_Comm comm = MPI_COMM_WORLD;
  CALL(MPI_Comm_rank(MPI_COMM_NULL, &n));
  CALL(MPI_Comm_rank(MPI_COMM_WORLD, NULL));
  CALL(MPI_Comm_size(MPI_COMM_WORLD, NULL));
  CALL(MPI_Initialized(NULL));
  CALL(MPI_Comm_free(&comm));
  comm = MPI_COMM_NULL;
  CALL(MPI_Comm_free(&comm));
  CALL(MPI_Comm_dup(MPI_COMM_NULL, &comm));
  CALL(MPI_Comm_dup(MPI_COMM_WORLD, NULL));
  CALL(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, NULL));
  CALL(MPI_Comm_get_name(MPI_COMM_NULL, text, &n));
  CALL(MPI_Comm_get_name(MPI_COMM_WORLD, NULL, &n));
  int dims[] = {5, 5}, periods[] = {0, 0};
  CALL(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &comm));
  printf("null: %d\n", comm == MPI_COMM_NULL);
#if defined(MPICH_VERSION)
  /* A communicator made before MPI_COMM_WORLD got a handler uses that handler, too. */
  CALL(MPI_Comm_split(early, 0, 0, NULL));
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm copy = comm;
  MPI_Comm_free(&comm);
  CALL(MPI_Barrier(copy));
  void* value;
  int flag;
  CALL(MPI_Comm_get_attr(copy, MPI_TAG_UB, &value, &flag));
#endif
  MPI_Datatype type = MPI_INT;
  CALL(MPI_Type_free(&type));
  type = MPI_DATATYPE_NULL;
  CALL(MPI_Type_free(&type));
  CALL(MPI_Type_get_name(MPI_DATATYPE_NULL, text, &n));
  CALL(MPI_Type_dup(MPI_DATATYPE_NULL, &type));
  CALL(MPI_Type_contiguous(-1, MPI_INT, &type));
  CALL(MPI_Type_contiguous(1, MPI_INT, NULL));
  CALL(MPI_Type_size(MPI_DATATYPE_NULL, &n));
  CALL(MPI_Type_size(MPI_INT, NULL));
  MPI_Op op = MPI_SUM;
  CALL(MPI_Op_free(&op));
  op = MPI_OP_NULL;
  CALL(MPI_Op_free(&op));
  CALL(MPI_Op_create(NULL, 1, &op));
  MPI_Group group = MPI_GROUP_NULL;
  CALL(MPI_Group_free(&group));
  CALL(MPI_Group_size(MPI_GROUP_NULL, &n));
  CALL(MPI_Group_union(MPI_GROUP_EMPTY, MPI_GROUP_EMPTY, NULL));
  CALL(MPI_Comm_group(MPI_COMM_NULL, &group));
  CALL(MPI_Comm_group(MPI_COMM_WORLD, NULL));
  CALL(MPI_Comm_remote_group(MPI_COMM_WORLD, NULL));
}

static void requests(void) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  int flag = 9, n, to_send[4] = {1, 2, 3, 4}, buffer[3][4];
  memset(&status, 1, sizeof status);
  CALL(MPI_Request_get_status(request, &flag, &status));
  printf("flag %d, any tag %d\n", flag, status.MPI_TAG == MPI_ANY_TAG);
  CALL(MPI_Request_free(&request));
  CALL(MPI_Cancel(&request));
  CALL(MPI_Start(&request));
  CALL(MPI_Wait(NULL, &status));
  CALL(MPI_Test(&request, NULL, &status));
  CALL(MPI_Waitall(1, NULL, MPI_STATUSES_IGNORE));
  CALL(MPI_Waitall(-1, &request, MPI_STATUSES_IGNORE));
  CALL(MPI_Get_count(&status, MPI_DATATYPE_NULL, &n));
#if defined(MPICH_VERSION)
  CALL(MPI_Get_count(&status, MPI_INT, NULL));
#endif
  CALL(MPI_Isend(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL));
  status.MPI_SOURCE = 77;
  status.MPI_TAG = 78;
  MPI_Message message;
  CALL(MPI_Iprobe(0, 5, MPI_COMM_WORLD, &flag, &status));
  printf("flag %d, source %d, tag %d\n", flag, status.MPI_SOURCE, status.MPI_TAG);
  CALL(MPI_Improbe(0, 5, MPI_COMM_WORLD, &flag, &message, &status));
  printf("flag %d, source %d, tag %d\n", flag, status.MPI_SOURCE, status.MPI_TAG);
  /* Two of three messages do not fit. */
  MPI_Request all[3];
  MPI_Status each[3];
  int count = 77, indices[3];
  for (int i = 0; i < 3; ++i) MPI_Irecv(buffer[i], i ? 1 : 4, MPI_INT, 0, i, MPI_COMM_WORLD, &all[i]);
  for (int i = 0; i < 3; ++i) MPI_Send(to_send, 4, MPI_INT, 0, i, MPI_COMM_WORLD);
  CALL(MPI_Waitsome(3, all, &count, indices, each));
  printf("count %d\n", count);
  for (int i = 0; i < count && i < 3; ++i)
    printf("index %d: %d\n", indices[i], each[i].MPI_ERROR == MPI_SUCCESS);
}

static void say_world(MPI_Comm* comm, int* code, ...) {
  (void)comm, (void)code;
  printf("the world's handler\n");
}

/* Open MPI 4.1 cannot make windows on one process: which handler is called? */
static void lonely_window(void) {
  MPI_Errhandler world;
  MPI_Win window = MPI_WIN_NULL;
  int word = 0;
  MPI_Comm_create_errhandler(say_world, &world);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, world);
  CALL(MPI_Win_create(&word, sizeof word, 1, MPI_INFO_NULL, MPI_COMM_SELF, &window));
  if (window != MPI_WIN_NULL) MPI_Win_free(&window);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Errhandler_free(&world);
}

static void others(void) {
  void* memory;
  MPI_Aint address;
  CALL(MPI_Alloc_mem(-1, MPI_INFO_NULL, &memory));
  CALL(MPI_Alloc_mem(1, MPI_INFO_NULL, NULL));
  CALL(MPI_Free_mem(NULL));
  CALL(MPI_Get_address(&address, NULL));
}

int main(int argc, char** argv) {
  int level = -1;
  /* MPI_Init reads what the program has set itself, too. */
  if (argc > 1) {
    setenv("OMPI_MPI_THREAD_LEVEL", "1", 1);
    setenv("MPIR_CVAR_DEFAULT_THREAD_LEVEL", "MPI_THREAD_FUNNELED", 1);
  }
  MPI_Init(&argc, &argv);
  setvbuf(stdout, NULL, _IONBF, 0);
  MPI_Query_thread(&level);
  printf("MPI_Init gives level %d\n", level);
  MPI_Comm_dup(MPI_COMM_WORLD, &early);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  /* In two parts: MPICH loses error classes after about a hundred errors. */
  if (argc > 1 && !strcmp(argv[1], "objects")) {
    objects();
    requests();
    others();
    lonely_window();
    MPI_Finalize();
    return 0;
  }
  handlers();
  attributes();
  information();
  codes(); /* last, since it uses up all of MPICH's codes */
  MPI_Finalize();
  return 0;
}
