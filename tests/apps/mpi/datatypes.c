// Contiguous, vector and nested datatypes in point-to-point calls and collectives, pending over computations.
#include <mpi.h>

#include "steplog.h"

enum { kRows = 40, kColumns = 30 };

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  MPI_Datatype column, pair, columns, unused;
  MPI_Type_vector(kRows, 1, kColumns, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);
  MPI_Type_contiguous(2, MPI_DOUBLE, &pair);
  MPI_Type_vector(kRows, 1, kColumns / 2, pair,
                  &columns);  // two neighbouring columns, of a type that is never committed
  MPI_Type_commit(&columns);
  MPI_Type_contiguous(9, MPI_SHORT, &unused);
  static double from[kRows][kColumns], to[kRows][kColumns];
  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    for (int i = 0; i < kRows; i++)
      for (int j = 0; j < kColumns; j++)
        from[i][j] = rank * 1e6 + (double)step * 1e3 + i * kColumns + j, to[i][j] = -1;
    int c = (int)(step % kColumns) / 2 * 2;
    MPI_Request requests[2];
    MPI_Irecv(&to[0][c], 1, columns, left, 3, MPI_COMM_WORLD, &requests[0]);
    steplog_pass(steplog_pace / 2);
    MPI_Isend(&from[0][c], 1, columns, right, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Status statuses[2];
    MPI_Waitall(2, requests, statuses);
    int count;
    MPI_Get_count(&statuses[0], columns, &count);
    STEPLOG_CHECK(count == 1);
    MPI_Get_elements(&statuses[0], columns, &count);
    STEPLOG_CHECK(count == 2 * kRows);
    for (int i = 0; i < kRows; i++)
      for (int j = 0; j < kColumns; j++)
        STEPLOG_CHECK(to[i][j] ==
                      (j == c || j == c + 1 ? left * 1e6 + (double)step * 1e3 + i * kColumns + j : -1));
    double received[kRows];
    MPI_Sendrecv(&from[0][1], 1, column, right, 4, received, kRows, MPI_DOUBLE, left, 4, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    STEPLOG_CHECK(received[kRows - 1] == left * 1e6 + (double)step * 1e3 + (kRows - 1) * kColumns + 1);
    MPI_Bcast(&from[0][2], 1, column, 0, MPI_COMM_WORLD);
    STEPLOG_CHECK(from[3][2] == (double)step * 1e3 + 3 * kColumns + 2);
    int size;
    MPI_Type_size(columns, &size);
    STEPLOG_CHECK(size == 2 * kRows * (int)sizeof(double));
    MPI_Aint lower, extent;
    MPI_Type_get_extent(columns, &lower, &extent);
    STEPLOG_CHECK(lower == 0 && extent == (MPI_Aint)(((kRows - 1) * kColumns + 2) * sizeof(double)));
    steplog_mix_bytes(to, sizeof to);
    steplog_mix_bytes(received, sizeof received);
    steplog_step();
  }
  MPI_Type_free(&unused);
  MPI_Type_free(&columns);
  MPI_Type_free(&pair);
  MPI_Type_free(&column);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
