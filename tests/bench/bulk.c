// A rank with much memory, half of it random and half written zeros, that makes a step (a small Allreduce)
// every millisecond:   bulk --bytes N --log FILE ...
#include <mpi.h>

#include "../apps/steplog.h"

int main(int argc, char** argv) {
  int rank;
  size_t bytes = 1u << 30;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--bytes")) bytes = strtoull(argv[i + 1], NULL, 0);
  steplog_pace = 1000;
  steplog_open(argc, argv, rank);
  uint64_t* memory = malloc(bytes + 8);
  size_t words = bytes / 8;
  uint64_t random = (uint64_t)rank + 5;
  for (size_t i = 0; i < words / 2; i++) memory[i] = steplog_random(&random);
  for (size_t i = words / 2; i < words; i++) ((volatile uint64_t*)memory)[i] = 0;  // touched
  while (steplog_done < steplog_steps) {
    long mine = steplog_done, sum;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    STEPLOG_CHECK(sum % (mine ? mine : 1) == 0);
    steplog_step();
  }
  for (size_t i = 0; i < words; i++) steplog_mix(memory[i]);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
