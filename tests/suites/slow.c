/* Slows a program down through MPI's profiling interface: the first CROPDL_SUITE_NAPS (default 400) calls
 * of the functions below sleep for CROPDL_SUITE_SLOW microseconds (not at all if unset), so that
 * checkpoints come during short tests and long tests still end. Preloaded by the runners; includes nothing
 * of CropDL. */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

static long number(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text ? atol(text) : otherwise;
}

static void nap(void) {
  static long microseconds = -1, left;
  if (microseconds < 0) {
    left = number("CROPDL_SUITE_NAPS", 400);
    microseconds = number("CROPDL_SUITE_SLOW", 0);
  }
  if (microseconds <= 0 || left <= 0) return;
  --left; /* several threads may sleep a few times more */
  struct timespec rest = {microseconds / 1000000, microseconds % 1000000 * 1000};
  nanosleep(&rest, &rest);
}

#define SLOW(name, parameters, arguments) \
  int MPI_##name parameters {             \
    nap();                                \
    return PMPI_##name arguments;         \
  }
SLOW(Barrier, (MPI_Comm c), (c))
SLOW(Bcast, (void* b, int n, MPI_Datatype t, int r, MPI_Comm c), (b, n, t, r, c))
SLOW(Allreduce, (const void* s, void* d, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (s, d, n, t, o, c))
SLOW(Reduce, (const void* s, void* d, int n, MPI_Datatype t, MPI_Op o, int r, MPI_Comm c),
     (s, d, n, t, o, r, c))
SLOW(Scan, (const void* s, void* d, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (s, d, n, t, o, c))
SLOW(Gather, (const void* s, int n, MPI_Datatype t, void* d, int m, MPI_Datatype u, int r, MPI_Comm c),
     (s, n, t, d, m, u, r, c))
SLOW(Scatter, (const void* s, int n, MPI_Datatype t, void* d, int m, MPI_Datatype u, int r, MPI_Comm c),
     (s, n, t, d, m, u, r, c))
SLOW(Allgather, (const void* s, int n, MPI_Datatype t, void* d, int m, MPI_Datatype u, MPI_Comm c),
     (s, n, t, d, m, u, c))
SLOW(Alltoall, (const void* s, int n, MPI_Datatype t, void* d, int m, MPI_Datatype u, MPI_Comm c),
     (s, n, t, d, m, u, c))
SLOW(Ibarrier, (MPI_Comm c, MPI_Request* q), (c, q))
SLOW(Send, (const void* b, int n, MPI_Datatype t, int r, int g, MPI_Comm c), (b, n, t, r, g, c))
SLOW(Ssend, (const void* b, int n, MPI_Datatype t, int r, int g, MPI_Comm c), (b, n, t, r, g, c))
SLOW(Recv, (void* b, int n, MPI_Datatype t, int r, int g, MPI_Comm c, MPI_Status* s), (b, n, t, r, g, c, s))
SLOW(Isend, (const void* b, int n, MPI_Datatype t, int r, int g, MPI_Comm c, MPI_Request* q),
     (b, n, t, r, g, c, q))
SLOW(Irecv, (void* b, int n, MPI_Datatype t, int r, int g, MPI_Comm c, MPI_Request* q), (b, n, t, r, g, c, q))
SLOW(Sendrecv,
     (const void* b, int n, MPI_Datatype t, int r, int g, void* d, int m, MPI_Datatype u, int f, int h,
      MPI_Comm c, MPI_Status* s),
     (b, n, t, r, g, d, m, u, f, h, c, s))
SLOW(Probe, (int r, int g, MPI_Comm c, MPI_Status* s), (r, g, c, s))
SLOW(Start, (MPI_Request * q), (q))
SLOW(Wait, (MPI_Request * q, MPI_Status* s), (q, s))
SLOW(Waitall, (int n, MPI_Request q[], MPI_Status s[]), (n, q, s))
SLOW(Comm_dup, (MPI_Comm c, MPI_Comm* n), (c, n))
SLOW(Comm_split, (MPI_Comm c, int o, int k, MPI_Comm* n), (c, o, k, n))
SLOW(Comm_create, (MPI_Comm c, MPI_Group g, MPI_Comm* n), (c, g, n))
SLOW(Comm_free, (MPI_Comm * c), (c))
SLOW(Comm_group, (MPI_Comm c, MPI_Group* g), (c, g))
SLOW(Group_free, (MPI_Group * g), (g))
SLOW(Type_commit, (MPI_Datatype * t), (t))
SLOW(Type_free, (MPI_Datatype * t), (t))
SLOW(Op_free, (MPI_Op * o), (o))
SLOW(Info_free, (MPI_Info * i), (i))
SLOW(Win_fence, (int a, MPI_Win w), (a, w))
SLOW(Win_free, (MPI_Win * w), (w))
SLOW(Finalize, (void), ())
