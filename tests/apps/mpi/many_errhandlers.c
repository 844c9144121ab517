// Makes and frees more error handlers in sequence than there are numbers for them (2^24), next to permanent
// ones: each behaves as its own, and the permanent ones still work. Then makes as many as possible at once,
// up to a million: one too many is refused with an error. Prints "done".
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kKept = 4, kInTurn = (1 << 24) + 10000, kMost = 1050000 };

#define EXPECT(what)                                             \
  do {                                                           \
    if (!(what)) {                                               \
      fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what); \
      MPI_Abort(MPI_COMM_WORLD, 1);                              \
    }                                                            \
  } while (0)

static int called, other_called;
static void handler(MPI_Comm* comm, int* code, ...) {
  (void)comm, (void)code;
  called++;
}
static void other_handler(MPI_Comm* comm, int* code, ...) {
  (void)comm, (void)code;
  other_called++;
}

int main(int argc, char** argv) {
  static MPI_Errhandler kept[kKept];
  MPI_Comm own;
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_SELF, &own);
  for (int i = 0; i < kKept; i++) EXPECT(!MPI_Comm_create_errhandler(handler, &kept[i]));
  for (int i = 0; i < kInTurn; i++) {
    MPI_Errhandler one = MPI_ERRHANDLER_NULL;
    EXPECT(!MPI_Comm_create_errhandler(other_handler, &one));
    EXPECT(one != MPI_ERRHANDLER_NULL && one != MPI_ERRORS_ARE_FATAL && one != MPI_ERRORS_RETURN);
    for (int k = 0; k < kKept; k++) EXPECT(one != kept[k]);
    EXPECT(!MPI_Errhandler_free(&one));
  }
  for (int i = 0; i < kKept; i++) {
    EXPECT(!MPI_Comm_set_errhandler(own, kept[i]) && !MPI_Comm_call_errhandler(own, MPI_ERR_OTHER));
    EXPECT(called == i + 1 && other_called == 0);
  }

  MPI_Errhandler* all = malloc(kMost * sizeof *all);
  int count = 0, code = MPI_SUCCESS, class = MPI_SUCCESS;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  while (count < kMost && !(code = MPI_Comm_create_errhandler(other_handler, &all[count]))) count++;
  EXPECT(count > 1000000);
  if (count < kMost) {
    MPI_Error_class(code, &class);
    EXPECT(class == MPI_ERR_NO_MEM);
    EXPECT(!MPI_Errhandler_free(&all[7]) && !MPI_Comm_create_errhandler(other_handler, &all[7]));
    EXPECT(!MPI_Comm_set_errhandler(own, all[7]) && !MPI_Comm_call_errhandler(own, MPI_ERR_OTHER));
    EXPECT(called == kKept && other_called == 1);
  }
  for (int i = 0; i < count; i++) EXPECT(!MPI_Errhandler_free(&all[i]));
  free(all);
  for (int i = 0; i < kKept; i++) EXPECT(!MPI_Errhandler_free(&kept[i]));
  MPI_Comm_free(&own);
  puts("done");
  MPI_Finalize();
  return 0;
}
