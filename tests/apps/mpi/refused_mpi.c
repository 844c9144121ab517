// Holds one MPI object or operation that cannot be saved in the first half of the steps, and releases it for
// the second: refused_mpi window|file|ireduction|intercomm|persistent|synchronous ...
// `left`: a handler leaves MPI calls by siglongjmp, and nothing releases that.
#include <mpi.h>
#if defined(OPEN_MPI)  // 4.1, in which it was not standard yet
#include <mpi-ext.h>
#define MPI_Barrier_init MPIX_Barrier_init
#endif
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "steplog.h"

static int rank, ranks, number, memory[16], sum;
static MPI_Win window;
static MPI_File file;
static MPI_Request request;
static MPI_Comm half, inter;

static MPI_Op plus;
static void add(void* in, void* inout, int* n, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *n; i++) ((int*)inout)[i] += ((int*)in)[i];
}

static sigjmp_buf before;
static void leaves(int sig) {
  (void)sig;
  siglongjmp(before, 1);
}
static volatile int jumps;
static void leave_calls(void) {
  const struct itimerval soon = {.it_value = {0, 2000}};
  signal(SIGALRM, leaves);
  if (sigsetjmp(before, 1)) ++jumps;
  if (jumps == 50) return;  // some of them in the middle of a call
  setitimer(ITIMER_REAL, &soon, NULL);
  for (;;) MPI_Wtime();
}

static void take(const char* what) {
  if (!strcmp(what, "window")) {
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  } else if (!strcmp(what, "file")) {
    char name[64];
    snprintf(name, sizeof name, "/tmp/refused-mpi-%d-%d", (int)getpid(), rank);
    STEPLOG_CHECK(!MPI_File_open(MPI_COMM_SELF, name,
                                 MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                                 &file));
  } else if (!strcmp(what, "ireduction")) {
    number = rank + 1;
    MPI_Op_create(add, 1, &plus);
    MPI_Iallreduce(&number, &sum, 1, MPI_INT, plus, MPI_COMM_WORLD, &request);
  } else if (!strcmp(what, "idup")) {
    if (rank == 0) MPI_Comm_idup(MPI_COMM_WORLD, &half, &request);
  } else if (!strcmp(what, "intercomm")) {
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, (rank + 1) % 2, 5, &inter);
  } else if (!strcmp(what, "persistent")) {
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  } else if (!strcmp(what, "synchronous")) {
    number = rank + 5;
    if (rank == 0) MPI_Issend(&number, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &request);
  } else if (!strcmp(what, "left")) {
    leave_calls();
  } else {
    steplog_fail("unknown: %s", what);
  }
}

static void let_go(const char* what) {
  if (!strcmp(what, "window")) {
    int value = rank + 10;
    MPI_Win_fence(0, window);
    MPI_Put(&value, 1, MPI_INT, (rank + 1) % ranks, 3, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    STEPLOG_CHECK(memory[3] == (rank + ranks - 1) % ranks + 10);
    MPI_Win_free(&window);
  } else if (!strcmp(what, "file")) {
    int value = 77, back = 0;
    MPI_File_write_at(file, 100, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_read_at(file, 100, &back, 1, MPI_INT, MPI_STATUS_IGNORE);
    STEPLOG_CHECK(back == 77);
    MPI_File_close(&file);
  } else if (!strcmp(what, "ireduction")) {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Op_free(&plus);
    STEPLOG_CHECK(sum == ranks * (ranks + 1) / 2);
  } else if (!strcmp(what, "idup")) {
    if (rank != 0) MPI_Comm_idup(MPI_COMM_WORLD, &half, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
    STEPLOG_CHECK(sum == ranks * (ranks - 1) / 2);
  } else if (!strcmp(what, "intercomm")) {
    int size, others = 0;
    MPI_Comm_remote_size(inter, &size);
    MPI_Allreduce(&rank, &others, 1, MPI_INT, MPI_MAX, inter);
    STEPLOG_CHECK(size >= ranks / 2 && others % 2 != rank % 2);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
  } else if (!strcmp(what, "synchronous")) {
    int over = 0, value = 0;
    if (rank == 0) MPI_Test(&request, &over, MPI_STATUS_IGNORE);
    STEPLOG_CHECK(!over);  // the receive has not begun
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    STEPLOG_CHECK(rank != 1 || value == 5);
    if (rank == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else if (strcmp(what, "left") != 0) {
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
  }
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  take(argv[1]);
  while (steplog_done < steplog_steps) {
    if (steplog_done == steplog_steps / 2) let_go(argv[1]);
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
