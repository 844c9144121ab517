// Main ends by pthread_exit with MPI_Finalize in a cleanup handler: the handler must run, and the job must
// exit with 0.
#include <mpi.h>
#include <pthread.h>

#include "steplog.h"

static void finish(void* unused) {
  (void)unused;
  steplog_ok();
  MPI_Finalize();
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  steplog_open(argc, argv, rank);
  while (steplog_done < steplog_steps) {
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    steplog_mix((uint64_t)sum);
    steplog_step();
  }
  pthread_cleanup_push(finish, NULL);
  pthread_exit(NULL);
  pthread_cleanup_pop(0);
}
