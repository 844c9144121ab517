// Communicators made by MPI_Comm_idup from the world, a part of it, such a duplicate, a grid, and
// MPI_COMM_SELF; several pending at once; used, freed and made again.
#include <mpi.h>

#include "steplog.h"

static int rank, ranks;

static void use(MPI_Comm comm, long step) {
  int me, n;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &n);
  long mine = rank * 100 + step, sum = 0, left = -1;
  MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, comm);
  MPI_Sendrecv(&mine, 1, MPI_LONG, (me + 1) % n, 3, &left, 1, MPI_LONG, (me + n - 1) % n, 3, comm,
               MPI_STATUS_IGNORE);
  steplog_mix((uint64_t)sum);
  steplog_mix((uint64_t)left);
}

#if MPI_VERSION >= 4
static MPI_Comm with_hints(void) {
  MPI_Comm made;
  MPI_Info info;
  MPI_Request request;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_exact_length", "true");
  MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &made, &request);
  MPI_Info_free(&info);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return made;
}
static void check_hints(MPI_Comm comm) {
  MPI_Info info;
  char value[8] = "";
  int flag;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_no_any_tag", "false");
  MPI_Comm_set_info(comm, info);  // does not change the other hints
  MPI_Info_free(&info);
  MPI_Comm_get_info(comm, &info);
  MPI_Info_get(info, "mpi_assert_exact_length", 7, value, &flag);
  STEPLOG_CHECK(flag && value[0] == 't');
  MPI_Info_free(&info);
}
#endif

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  enum { kKept = 6 };
  MPI_Comm halves, grid, kept[kKept], brief[2] = {MPI_COMM_NULL, MPI_COMM_NULL};
  MPI_Request requests[kKept];
  MPI_Status statuses[kKept];
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &halves);
  int round = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &round, 1, &grid);
  MPI_Comm_idup(MPI_COMM_WORLD, &kept[0], &requests[0]);
  MPI_Comm_idup(halves, &kept[1], &requests[1]);
  MPI_Comm_idup(grid, &kept[2], &requests[2]);
  MPI_Comm_idup(MPI_COMM_SELF, &kept[3], &requests[3]);
  MPI_Comm_idup(MPI_COMM_SELF, &kept[4], &requests[4]);
  MPI_Waitall(5, requests, statuses);
  MPI_Comm_idup(kept[1], &kept[5], &requests[5]);
  MPI_Wait(&requests[5], MPI_STATUS_IGNORE);
  MPI_Comm_free(&grid);
#if MPI_VERSION >= 4
  MPI_Comm hinted = with_hints();
#endif
  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    for (int i = 0; i < kKept; i++) use(kept[i], step + i);
#if MPI_VERSION >= 4
    check_hints(hinted);
#endif
    int same, low, high, me;
    MPI_Comm_compare(halves, kept[5], &same);
    STEPLOG_CHECK(same == MPI_CONGRUENT);
    MPI_Comm_rank(kept[2], &me);
    MPI_Cart_shift(kept[2], 0, 1, &low, &high);
    STEPLOG_CHECK(low == (me + ranks - 1) % ranks && high == (me + 1) % ranks);
    if (step % 6 == 1) {
      MPI_Comm_idup(kept[1], &brief[0], &requests[0]);
      MPI_Comm_idup(MPI_COMM_WORLD, &brief[1], &requests[1]);
      steplog_spin(2000);
      MPI_Waitall(2, requests, statuses);
    }
    if (step % 6 >= 1 && step % 6 < 5 && brief[0] != MPI_COMM_NULL) use(brief[0], step), use(brief[1], step);
    if (step % 6 == 5 && brief[0] != MPI_COMM_NULL) MPI_Comm_free(&brief[0]), MPI_Comm_free(&brief[1]);
    steplog_step();
  }
  for (int i = 0; i < 2; i++)
    if (brief[i] != MPI_COMM_NULL) MPI_Comm_free(&brief[i]);
  for (int i = 0; i < kKept; i++) MPI_Comm_free(&kept[i]);
  MPI_Comm_free(&halves);
#if MPI_VERSION >= 4
  MPI_Comm_free(&hinted);
#endif
  steplog_ok();
  MPI_Finalize();
  return 0;
}
