// Generalized requests: calls the program's functions in their language when the MPI underneath asks. UH, any
// thread; run() is above an LH frame, so no checkpoint is taken inside.
#include <dlfcn.h>

#include "interpose/mpi/upper/objects.h"

namespace cropdl::shim {
namespace {

struct Generalized {
  seam::GeneralizedCallbacks callbacks;  // first: the lower half's pointer to the record
  MPI_Grequest_query_function* query;
  MPI_Grequest_free_function* released;
  MPI_Grequest_cancel_function* cancel;
  void* extra;
  Vid request;
  bool fortran;
  Generalized* next;
};
SpinLock generalized_lock;
Generalized* all = nullptr;

int run(seam::GeneralizedCallbacks* of, int what, seam::Status* neutral, int complete) {
  auto* g = reinterpret_cast<Generalized*>(of);
  MPI_Fint error = MPI_SUCCESS;
  if (what == seam::kQueryGeneralized) {
    MPI_Status status;
    memset(&status, 0, sizeof status);
    constants::from_seam_status(*neutral, &status);
    if (g->fortran) {
      reinterpret_cast<void (*)(void*, MPI_Fint*, MPI_Fint*)>(reinterpret_cast<void (*)()>(g->query))(
          g->extra, reinterpret_cast<MPI_Fint*>(&status), &error);
    } else {
      error = g->query(g->extra, &status);
    }
    *neutral = status_in(status);
    return error;
  }
  if (what == seam::kCancelGeneralized) {
    if (!g->fortran) return g->cancel(g->extra, complete);
    MPI_Fint done = complete;
    reinterpret_cast<void (*)(void*, MPI_Fint*, MPI_Fint*)>(reinterpret_cast<void (*)()>(g->cancel))(
        g->extra, &done, &error);
    return error;
  }
  if (g->fortran) {
    reinterpret_cast<void (*)(void*, MPI_Fint*)>(reinterpret_cast<void (*)()>(g->released))(g->extra, &error);
  } else if (g->released) {
    error = g->released(g->extra);
  }
  {
    Locked locked(generalized_lock);
    Generalized** at = &all;
    while (*at && *at != g) at = &(*at)->next;
    if (*at) *at = g->next;
  }
  free(g);
  return error;
}

// Open MPI's Fortran library writes to its own request object after the call; the shim has none for it.
bool called_by_fortran([[maybe_unused]] const void* caller) {
#if defined(CROPDL_ABI_OPENMPI)
  Dl_info where;
  return dladdr(caller, &where) && where.dli_fname && strstr(where.dli_fname, "libmpi_mpifh");
#else
  return false;
#endif
}

}  // namespace

MPI_FUNCTION(int, Grequest_start, MPI_Grequest_query_function* query, MPI_Grequest_free_function* released,
             MPI_Grequest_cancel_function* cancel, void* extra, MPI_Request* request) {
  constexpr seam::Fn kFn = seam::kFn_MPI_Grequest_start;
  if (!request) return fail_mpi_call(kNoObject, null_result(Kind::kRequest, kFn), kFn);
  if (called_by_fortran(__builtin_return_address(0)))
    return fail_mpi_call(kNoObject, seam::kErrUnsupportedOperation, kFn);
  auto* g = allocate<Generalized>();
  *g = {{run}, query, released, cancel, extra, 0, false, nullptr};
  Vid vid = make_vid(Kind::kRequest, 0);
  if (const int r = call_library<int>(kFn, static_cast<void*>(g), &vid)) {
    free(g);
    return fail_mpi_call(kNoObject, r, kFn);
  }
  g->request = vid;
  {
    Locked locked(generalized_lock);
    g->next = all;
    all = g;
  }
  *request = handle_out<Kind::kRequest>(vid);
  return MPI_SUCCESS;
}

#if defined(CROPDL_ABI_MPICH)
// MPICH's Fortran library calls this after MPI_Grequest_start.
EXPORTED void MPII_Grequest_set_lang_f77(MPI_Request request) {
  const Vid vid = handle_in<Kind::kRequest>(request);
  Locked locked(generalized_lock);
  for (Generalized* g = all; g; g = g->next)
    if (g->request == vid) g->fortran = true;
}
#endif

}  // namespace cropdl::shim
