// Times MPI calls between two ranks. Prints `NAME NANOSECONDS` per kind: the median over batches of the mean
// time of a call (ping-pong: of a round trip). Arguments: kinds to leave out.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBatches = 15, kLarge = 64 << 20 };

static int rank;
static char* memory;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void allreduce_8(int n) {
  for (int i = 0; i < n; i++) {
    double in = i, out;
    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
}

static void ping_pong(int n, int bytes) {
  for (int i = 0; i < n; i++) {
    if (rank == 0) {
      MPI_Send(memory, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(memory, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
      MPI_Recv(memory, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(memory, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    }
  }
}

static void ping_pong_8(int n) { ping_pong(n, 8); }
static void ping_pong_64k(int n) { ping_pong(n, 65536); }

static void comm_rank(int n) {
  int r = 0;
  for (int i = 0; i < n; i++) {
    int got;
    MPI_Comm_rank(MPI_COMM_WORLD, &got);
    r += got;
  }
  if (r != n * rank) abort();
}

static void allreduce_64m(int n) {
  for (int i = 0; i < n; i++)
    MPI_Allreduce(MPI_IN_PLACE, memory, kLarge / (int)sizeof(float), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static const struct {
  const char* name;
  void (*run)(int);
  int calls, batches;
} kinds[] = {{"allreduce_8", allreduce_8, 4000, kBatches},
             {"ping_pong_8", ping_pong_8, 4000, kBatches},
             {"comm_rank", comm_rank, 1000000, kBatches},
             {"ping_pong_64k", ping_pong_64k, 400, kBatches},
             {"allreduce_64m", allreduce_64m, 1, 7}};

static int by_value(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  memory = calloc(1, kLarge);
  memset(memory, 0, kLarge);
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
    int left_out = 0;
    for (int i = 1; i < argc; i++) left_out |= !strcmp(argv[i], kinds[k].name);
    if (left_out) continue;
    double times[kBatches];
    kinds[k].run(kinds[k].calls / 4 + 1);
    for (int b = 0; b < kinds[k].batches; b++) {
      MPI_Barrier(MPI_COMM_WORLD);
      double start = now();
      kinds[k].run(kinds[k].calls);
      times[b] = (now() - start) / kinds[k].calls;
    }
    qsort(times, (size_t)kinds[k].batches, sizeof times[0], by_value);
    if (rank == 0) printf("%s %.2f\n", kinds[k].name, times[kinds[k].batches / 2]);
  }
  MPI_Finalize();
  return 0;
}
