/* Slows a program down through MPI's profiling interface: every call named below first sleeps for
   CROPDL_SUITE_SLOW microseconds (not at all without it), so that checkpoints fall inside short tests. Linked into
   each test program by the runners; includes nothing of CropDL. */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

static void nap(void) {
  static long microseconds = -1;
  if (microseconds < 0) {
    const char* text = getenv("CROPDL_SUITE_SLOW");
    microseconds = text ? atol(text) : 0;
  }
  if (microseconds <= 0) return;
  struct timespec left = {microseconds / 1000000, microseconds % 1000000 * 1000};
  nanosleep(&left, &left);
}

#define SLOW(name, parameters, arguments) \
  int MPI_##name parameters {             \
    nap();                                \
    return PMPI_##name arguments;         \
  }
SLOW(Barrier, (MPI_Comm c), (c))
SLOW(Bcast, (void* b, int n, MPI_Datatype t, int r, MPI_Comm c), (b, n, t, r, c))
SLOW(Allreduce, (const void* s, void* d, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (s, d, n, t, o, c))
SLOW(Reduce, (const void* s, void* d, int n, MPI_Datatype t, MPI_Op o, int r, MPI_Comm c), (s, d, n, t, o, r, c))
SLOW(Send, (const void* b, int n, MPI_Datatype t, int r, int g, MPI_Comm c), (b, n, t, r, g, c))
SLOW(Recv, (void* b, int n, MPI_Datatype t, int r, int g, MPI_Comm c, MPI_Status* s), (b, n, t, r, g, c, s))
SLOW(Isend, (const void* b, int n, MPI_Datatype t, int r, int g, MPI_Comm c, MPI_Request* q), (b, n, t, r, g, c, q))
SLOW(Irecv, (void* b, int n, MPI_Datatype t, int r, int g, MPI_Comm c, MPI_Request* q), (b, n, t, r, g, c, q))
SLOW(Wait, (MPI_Request * q, MPI_Status* s), (q, s))
SLOW(Waitall, (int n, MPI_Request q[], MPI_Status s[]), (n, q, s))
SLOW(Comm_dup, (MPI_Comm c, MPI_Comm* n), (c, n))
SLOW(Comm_split, (MPI_Comm c, int o, int k, MPI_Comm* n), (c, o, k, n))
SLOW(Comm_free, (MPI_Comm * c), (c))
SLOW(Type_commit, (MPI_Datatype * t), (t))
SLOW(Type_free, (MPI_Datatype * t), (t))
SLOW(Win_fence, (int a, MPI_Win w), (a, w))
SLOW(Win_free, (MPI_Win * w), (w))
SLOW(Finalize, (void), ())
