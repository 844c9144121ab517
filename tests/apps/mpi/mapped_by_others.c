/* Rank 0 writes one file in place, to which rank 1 only appends, and appends to another. All ranks map
 * both (shared, read-only) and see each step's writes in their memory. Also DIR/large, if it exists, which
 * rank 0 writes only in the second half of the steps. --work DIR */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include "steplog.h"

enum { kPlaced = 64 << 10, kAppended = 4 << 20, kLarge = 20 << 20 };

static const uint64_t* map(const char* name, size_t size) {
  const int fd = open(name, O_RDONLY);
  STEPLOG_CHECK(fd >= 0);
  void* at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
  STEPLOG_CHECK(at != MAP_FAILED && close(fd) == 0);
  return at;
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  steplog_open(argc, argv, rank);
  const char* work = ".";
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--work")) work = argv[i + 1];
  char placed_name[4096], appended_name[4096];
  snprintf(placed_name, sizeof placed_name, "%s/placed", work);
  snprintf(appended_name, sizeof appended_name, "%s/appended", work);
  int placed = -1, appended = -1;
  if (rank == 0) {
    placed = open(placed_name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    appended = open(appended_name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    STEPLOG_CHECK(placed >= 0 && appended >= 0 && ftruncate(placed, kPlaced) == 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const int tail = rank == 1 ? open(placed_name, O_WRONLY | O_APPEND) : -1;
  STEPLOG_CHECK(rank != 1 || tail >= 0);
  const uint64_t *in_place = map(placed_name, kPlaced), *at_the_end = map(appended_name, kAppended);
  char large_name[4096];
  snprintf(large_name, sizeof large_name, "%s/large", work);
  const int large = open(large_name, O_RDWR);
  const uint64_t* in_large = large >= 0 ? map(large_name, kLarge) : NULL;
  if (rank != 0) close(large);
  uint64_t last[kPlaced / 4096] = {0};
  while (steplog_done < steplog_steps) {
    const uint64_t step = (uint64_t)steplog_done, page = step * 7 % (kPlaced / 4096), value = step * step + 1;
    if (rank == 0) {
      STEPLOG_CHECK(pwrite(placed, &value, 8, (off_t)page * 4096) == 8);
      STEPLOG_CHECK(write(appended, &value, 8) == 8);
      if (in_large && steplog_done >= steplog_steps / 2)
        STEPLOG_CHECK(pwrite(large, &value, 8, (off_t)step * 4096) == 8);
    }
    if (rank == 1)
      STEPLOG_CHECK(write(tail, &value, 8) == 8 &&
                    lseek(tail, 0, SEEK_END) == kPlaced + 8 * ((off_t)step + 1));
    last[page] = value;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < kPlaced / 4096; i++) STEPLOG_CHECK(in_place[i * 512] == last[i]);
    for (uint64_t i = 0; i <= step; i++) STEPLOG_CHECK(at_the_end[i] == i * i + 1);
    for (uint64_t i = 0; in_large && i < 1000; i++)
      STEPLOG_CHECK(in_large[i * 512] == (i >= (uint64_t)steplog_steps / 2 && i <= step ? i * i + 1 : 0));
    steplog_mix(value);
    MPI_Barrier(MPI_COMM_WORLD);
    steplog_step();
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
