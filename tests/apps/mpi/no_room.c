// For the first half of the steps a large message is under way to rank 1, which has no address space left
// (RLIMIT_AS), so that a checkpoint cannot take it; then rank 1 has room again, and receives it.
#include <mpi.h>
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

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  steplog_open(argc, argv, rank);
  long* buffer = malloc(sizeof *buffer * kLength);
  memset(buffer, 0, sizeof *buffer * kLength);
  MPI_Request request = MPI_REQUEST_NULL;
  struct rlimit before, little;
  getrlimit(RLIMIT_AS, &before);
  for (int i = 0; rank == 0 && i < kLength; i++) buffer[i] = i * 3L;
  if (rank == 0) MPI_Isend(buffer, kLength, MPI_LONG, 1, 5, MPI_COMM_WORLD, &request);
  while (steplog_done < steplog_steps) {
    if (rank == 1 && steplog_done == 0) {
      little.rlim_cur = in_use() + (8 << 20);
      little.rlim_max = before.rlim_max;
      STEPLOG_CHECK(!setrlimit(RLIMIT_AS, &little));
    }
    if (rank == 1 && steplog_done == steplog_steps / 2) {
      STEPLOG_CHECK(!setrlimit(RLIMIT_AS, &before));
      MPI_Recv(buffer, kLength, MPI_LONG, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int i = 0; i < kLength; i++) STEPLOG_CHECK(buffer[i] == i * 3L);
    }
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    steplog_step();
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
