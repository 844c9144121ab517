// A third of the steps before MPI_Init_thread, a third between it and MPI_Finalize, a third afterwards. The
// provided thread level is the requested one (--level N), as natively.
#include <mpi.h>

#include "steplog.h"

int main(int argc, char** argv) {
  const char* number = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
  const int expected = number ? atoi(number) : 0;
  steplog_open(argc, argv, expected);
  int level = MPI_THREAD_SERIALIZED, provided = -1, now = -1, flag, rank = -1, ranks = -1;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--level"))
      level = argv[i + 1][0] == 's'   ? MPI_THREAD_SINGLE
              : argv[i + 1][0] == 'f' ? MPI_THREAD_FUNNELED
                                      : MPI_THREAD_SERIALIZED;
  while (steplog_done < steplog_steps / 3) {
    STEPLOG_CHECK(!MPI_Initialized(&flag) && !flag && !MPI_Finalized(&flag) && !flag);
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  STEPLOG_CHECK(!MPI_Init_thread(&argc, &argv, level, &provided));
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  STEPLOG_CHECK(rank == expected && provided >= level);
  while (steplog_done < steplog_steps * 2 / 3) {
    long one = steplog_done, sum = 0;
    STEPLOG_CHECK(!MPI_Initialized(&flag) && flag && !MPI_Finalized(&flag) && !flag);
    STEPLOG_CHECK(!MPI_Query_thread(&now) && now == provided);
    STEPLOG_CHECK(!MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD) && sum == one * ranks);
    steplog_mix((uint64_t)(sum + provided));
    steplog_step();
  }
  STEPLOG_CHECK(!MPI_Finalize());
  while (steplog_done < steplog_steps) {
    STEPLOG_CHECK(!MPI_Initialized(&flag) && flag && !MPI_Finalized(&flag) && flag);
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
