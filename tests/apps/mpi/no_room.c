// In the first half of the steps a large message is in flight to rank 1, which has no address space left
// (RLIMIT_AS), so a checkpoint cannot drain it. Then rank 1 gets room again, and receives it.
// no_room threads: each of two ranks is blocked in such a send to the other; a second thread of each makes
// the steps once the message has arrived, and receives it later (MPI_THREAD_MULTIPLE).
#include <mpi.h>
#include <pthread.h>
#include <sys/resource.h>

#include "steplog.h"

enum { kLength = 4 << 20 };

static rlim_t in_use(void) {
  unsigned long pages = 0;
  FILE* f = fopen("/proc/self/statm", "r");
  STEPLOG_CHECK(f && fscanf(f, "%lu", &pages) == 1);
  fclose(f);
  return pages * 4096;
}

static int rank;
static struct rlimit before;

static void leave_little(void) {
  struct rlimit little = before;
  little.rlim_cur = in_use() + (8 << 20);
  STEPLOG_CHECK(!setrlimit(RLIMIT_AS, &little));
}

static void receive(long* buffer, int from) {
  STEPLOG_CHECK(!setrlimit(RLIMIT_AS, &before));
  MPI_Recv(buffer, kLength, MPI_LONG, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < kLength; i++) STEPLOG_CHECK(buffer[i] == i * 3L);
}

static void* step_and_receive(void* buffer) {
  MPI_Probe(!rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  while (steplog_done < steplog_steps) {
    if (steplog_done == 0) leave_little();
    if (steplog_done == steplog_steps / 2) receive(buffer, !rank);
    steplog_step();
  }
  return buffer;
}

static void cross(long* buffer) {
  pthread_t thread;
  long* other = malloc(sizeof *other * kLength);
  memset(other, 0, sizeof *other * kLength);
  STEPLOG_CHECK(!pthread_create(&thread, NULL, step_and_receive, other));
  MPI_Send(buffer, kLength, MPI_LONG, !rank, 5, MPI_COMM_WORLD);
  STEPLOG_CHECK(!pthread_join(thread, NULL));
}

int main(int argc, char** argv) {
  const int threads = argc > 1 && !strcmp(argv[1], "threads");
  int provided;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  STEPLOG_CHECK(!threads || provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  steplog_open(argc, argv, rank);
  long* buffer = malloc(sizeof *buffer * kLength);
  memset(buffer, 0, sizeof *buffer * kLength);
  MPI_Request request = MPI_REQUEST_NULL;
  getrlimit(RLIMIT_AS, &before);
  for (int i = 0; (threads || rank == 0) && i < kLength; i++) buffer[i] = i * 3L;
  if (threads) {
    cross(buffer);
    steplog_ok();
    MPI_Finalize();
    return 0;
  }
  if (rank == 0) MPI_Isend(buffer, kLength, MPI_LONG, 1, 5, MPI_COMM_WORLD, &request);
  while (steplog_done < steplog_steps) {
    if (rank == 1 && steplog_done == 0) leave_little();
    if (rank == 1 && steplog_done == steplog_steps / 2) receive(buffer, 0);
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    steplog_step();
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
