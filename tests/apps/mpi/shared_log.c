/* All ranks append to one file, rank 0 a few bytes at a time, the others megabytes in one write, so that
 * some still write when others are stopped. At the end every record is there, once and in order. --work
 * DIR */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include "steplog.h"

enum { kSmall = 64, kLarge = 12 << 20, kRanks = 16 };

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  char name[4096] = "shared";
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--work")) snprintf(name, sizeof name, "%s/shared", argv[i + 1]);
  const int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
  STEPLOG_CHECK(fd >= 0 && ranks <= kRanks);
  const size_t size = rank == 0 ? kSmall : kLarge;
  uint64_t* record = calloc(1, size);
  record[0] = size, record[1] = (uint64_t)rank;
  MPI_Barrier(MPI_COMM_WORLD);
  while (steplog_done < steplog_steps) {
    record[2] = (uint64_t)steplog_done;
    STEPLOG_CHECK(write(fd, record, size) == (ssize_t)size);
    steplog_mix(record[2]);
    steplog_step();
    if (steplog_done % 4 == 0) MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    const int in = open(name, O_RDONLY);
    uint64_t head[3], next[kRanks] = {0};
    off_t at = 0;
    while (pread(in, head, sizeof head, at) == (ssize_t)sizeof head) {
      if (head[1] >= (uint64_t)ranks || head[2] != next[head[1]])
        steplog_fail("at %lld: rank %llu's record %llu, not %llu", (long long)at, (unsigned long long)head[1],
                     (unsigned long long)head[2], (unsigned long long)(head[1] < kRanks ? next[head[1]] : 0));
      next[head[1]]++;
      at += (off_t)head[0];
    }
    for (int r = 0; r < ranks; r++)
      if (next[r] != (uint64_t)steplog_steps)
        steplog_fail("%llu records of rank %d", (unsigned long long)next[r], r);
    close(in);
    unlink(name);
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
