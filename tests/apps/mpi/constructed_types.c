// Datatypes by every constructor, some built from freed ones, and those of Fortran 90's kinds: in each step,
// sizes, extents and transferred data stay the same, also of a type to which the MPIs give different extents.
#include <mpi.h>
#include <stddef.h>

#include "steplog.h"

enum { kSide = 8, kTypes = 16 };

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  STEPLOG_CHECK(ranks == 2);
  steplog_open(argc, argv, rank);
  int other = 1 - rank;
  MPI_Datatype type[kTypes], pair, scratch;
  int n = 0;
  int lengths[3] = {1, 3, 2}, at[3] = {5, 0, 9};
  MPI_Aint bytes[3] = {40, 0, 88};
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_dup(pair, &type[n++]);
  MPI_Type_create_hvector(3, 1, 24, pair, &type[n++]);
  MPI_Type_indexed(3, lengths, at, MPI_INT, &type[n++]);
  MPI_Type_create_hindexed(3, lengths, bytes, pair, &type[n++]);
  MPI_Type_create_indexed_block(3, 2, at, MPI_FLOAT, &type[n++]);
  MPI_Type_create_hindexed_block(3, 1, bytes, MPI_DOUBLE, &type[n++]);
  MPI_Datatype members[3] = {MPI_DOUBLE, pair, MPI_CHAR};
  MPI_Type_create_struct(3, lengths, bytes, members, &scratch);
  MPI_Type_create_resized(scratch, -8, 128, &type[n++]);
  MPI_Type_free(&scratch);
  MPI_Type_free(&pair);
  int sizes[2] = {kSide, kSide}, part[2] = {3, 4}, start[2] = {2, 1};
  MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_FORTRAN, MPI_SHORT, &type[n++]);
  // A grid of 2 by 1: rows in blocks, columns cyclic.
  int grid[2] = {2, 1}, how[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
  int with[2] = {MPI_DISTRIBUTE_DFLT_DARG, 3}, how2[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
  int with2[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
  MPI_Type_create_darray(2, 1, 2, sizes, how, with, grid, MPI_ORDER_C, MPI_INT, &type[n++]);
  MPI_Type_create_darray(2, 0, 2, sizes, how2, with2, grid, MPI_ORDER_FORTRAN, type[0], &scratch);
  MPI_Type_contiguous(1, scratch, &type[n++]);
  MPI_Type_free(&scratch);
  // Open MPI gives a structure with a resized member its bounds (here 8 and 28), MPICH computes 0 and 32.
  MPI_Datatype three, inside[2] = {MPI_DOUBLE, MPI_DATATYPE_NULL};
  int once[2] = {1, 1};
  MPI_Aint within[2] = {0, 8};
  MPI_Type_contiguous(3, MPI_FLOAT, &three);
  MPI_Type_create_resized(three, 0, 20, &inside[1]);
  const int cell = n;
  MPI_Type_create_struct(2, once, within, inside, &type[n++]);
  MPI_Type_contiguous(2, type[cell], &type[n++]);
  MPI_Type_free(&three);
  MPI_Type_free(&inside[1]);
  int mine = n;  // types that need commit and free
  MPI_Type_create_f90_real(12, 200, &type[n++]);
  MPI_Type_create_f90_complex(6, 30, &type[n++]);
  MPI_Type_create_f90_integer(9, &type[n++]);
  MPI_Type_contiguous(3, type[mine], &type[n++]);
  STEPLOG_CHECK(n == kTypes);
  for (int i = 0; i < mine; i++) MPI_Type_commit(&type[i]);
  MPI_Type_commit(&type[n - 1]);
  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    for (int i = 0; i < kTypes; i++) {
      int size;
      MPI_Aint lower, extent, true_lower, true_extent;
      MPI_Type_size(type[i], &size);
      MPI_Type_get_extent(type[i], &lower, &extent);
      MPI_Type_get_true_extent(type[i], &true_lower, &true_extent);
      steplog_mix((uint64_t)size);
      steplog_mix((uint64_t)lower);
      steplog_mix((uint64_t)extent);
      steplog_mix((uint64_t)true_lower);
      steplog_mix((uint64_t)true_extent);
      unsigned char from[2048], to[2048];
      STEPLOG_CHECK(true_lower >= 0 && true_lower + true_extent <= (MPI_Aint)sizeof from);
      for (size_t k = 0; k < sizeof from; k++)
        from[k] = (unsigned char)(k * 7 + (size_t)step + (size_t)rank), to[k] = 0xee;
      MPI_Request request;
      MPI_Irecv(to, 1, type[i], other, i, MPI_COMM_WORLD, &request);
      if (i == 3) steplog_pass(steplog_pace / 2);
      MPI_Send(from, 1, type[i], other, i, MPI_COMM_WORLD);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      steplog_mix_bytes(to, sizeof to);
      if (i != cell) continue;
      MPI_Bcast(rank == 0 ? from : to, 4, type[i], 0, MPI_COMM_WORLD);
      steplog_mix_bytes(to, sizeof to);
    }
    int integers, addresses, types, combiner;
    MPI_Type_get_envelope(type[8], &integers, &addresses, &types, &combiner);
    STEPLOG_CHECK(combiner == MPI_COMBINER_DARRAY && integers == 12 && types == 1);
    MPI_Type_get_envelope(type[mine], &integers, &addresses, &types, &combiner);
    STEPLOG_CHECK(combiner == MPI_COMBINER_F90_REAL && integers == 2);
    MPI_Type_get_envelope(type[cell], &integers, &addresses, &types, &combiner);
    STEPLOG_CHECK(combiner == MPI_COMBINER_STRUCT && integers == 3 && addresses == 2 && types == 2);
    steplog_step();
  }
  for (int i = 0; i < mine; i++) MPI_Type_free(&type[i]);
  MPI_Type_free(&type[n - 1]);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
