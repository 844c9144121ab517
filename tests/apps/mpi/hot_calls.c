// The cheapest MPI calls in a hot loop, so that cuts and kills hit the way into the lower half and out of it.
// An address of one run's lower half that survives into the next run would crash here. Communicates a little
// in every step.
#include <mpi.h>

#include "steplog.h"

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  long pace = steplog_pace;
  steplog_pace = 0;
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  while (steplog_done < steplog_steps) {
    double end = steplog_now() + 1e-6 * (double)pace;
    unsigned long rounds = 0;
    while (steplog_now() < end) {
      for (int k = 0; k < 50; k++, rounds++) {
        int flag = 7, size = 0, who = -1;
        long in = (long)rounds, out = -1;
        STEPLOG_CHECK(!MPI_Iprobe(MPI_ANY_SOURCE, 99, copy, &flag, MPI_STATUS_IGNORE) && flag == 0);
        STEPLOG_CHECK(!MPI_Comm_rank(copy, &who) && who == rank);
        STEPLOG_CHECK(!MPI_Comm_size(MPI_COMM_WORLD, &size) && size == ranks);
        STEPLOG_CHECK(!MPI_Allreduce(&in, &out, 1, MPI_LONG, MPI_SUM, MPI_COMM_SELF) && out == in);
        STEPLOG_CHECK(!MPI_Type_size(MPI_DOUBLE, &size) && size == 8);
        STEPLOG_CHECK(!MPI_Initialized(&flag) && flag == 1);
      }
    }
    long mine = steplog_done * ranks + rank, next = -1;
    MPI_Sendrecv(&mine, 1, MPI_LONG, (rank + 1) % ranks, 3, &next, 1, MPI_LONG, (rank + ranks - 1) % ranks, 3,
                 copy, MPI_STATUS_IGNORE);
    STEPLOG_CHECK(next == steplog_done * ranks + (rank + ranks - 1) % ranks);
    steplog_mix((uint64_t)next);
    steplog_step();
  }
  steplog_ok();
  MPI_Comm_free(&copy);
  MPI_Finalize();
  return 0;
}
