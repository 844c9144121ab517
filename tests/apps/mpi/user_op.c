// A user-defined operation that does not commute (2x2 matrices modulo a prime) over a contiguous datatype.
#include <mpi.h>

#include "steplog.h"

enum { kPrime = 1000003, kMatrices = 7 };
typedef struct {
  long long m[4];
} matrix;

static matrix product(matrix a, matrix b) {
  matrix c = {{(a.m[0] * b.m[0] + a.m[1] * b.m[2]) % kPrime, (a.m[0] * b.m[1] + a.m[1] * b.m[3]) % kPrime,
               (a.m[2] * b.m[0] + a.m[3] * b.m[2]) % kPrime, (a.m[2] * b.m[1] + a.m[3] * b.m[3]) % kPrime}};
  return c;
}

static MPI_Datatype matrix_type;
static long calls;

static void multiply(void* in, void* inout, int* length, MPI_Datatype* type) {
  STEPLOG_CHECK(*type == matrix_type);
  calls++;
  for (int i = 0; i < *length; i++) ((matrix*)inout)[i] = product(((matrix*)in)[i], ((matrix*)inout)[i]);
}

static matrix start(int rank, long step, int i) {
  matrix m = {{rank + 2, step % 1000 + i, i + 1, 3 * rank + 1}};
  return m;
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  MPI_Op op;
  MPI_Type_contiguous(4, MPI_LONG_LONG, &matrix_type);
  MPI_Type_commit(&matrix_type);
  MPI_Op_create(multiply, 0, &op);
  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    matrix mine[kMatrices], result[kMatrices], expected;
    for (int i = 0; i < kMatrices; i++) mine[i] = start(rank, step, i);
    MPI_Allreduce(mine, result, kMatrices, matrix_type, op, MPI_COMM_WORLD);
    for (int i = 0; i < kMatrices; i++) {
      expected = start(0, step, i);
      for (int r = 1; r < ranks; r++) expected = product(expected, start(r, step, i));
      STEPLOG_CHECK(!memcmp(&expected, &result[i], sizeof expected));
    }
    MPI_Scan(MPI_IN_PLACE, mine, kMatrices, matrix_type, op, MPI_COMM_WORLD);
    expected = start(0, step, 2);
    for (int r = 1; r <= rank; r++) expected = product(expected, start(r, step, 2));
    STEPLOG_CHECK(!memcmp(&expected, &mine[2], sizeof expected));
    steplog_mix_bytes(result, sizeof result);
    steplog_step();
  }
  STEPLOG_CHECK(ranks == 1 || rank == 0 || calls > 0);
  MPI_Op_free(&op);
  MPI_Type_free(&matrix_type);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
