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

template <class F>
int call_fortran(F* function, void* extra, MPI_Fint* value) {
  MPI_Fint error = MPI_SUCCESS;
  reinterpret_cast<void (*)(void*, MPI_Fint*, MPI_Fint*)>(reinterpret_cast<void (*)()>(function))(
      extra, value, &error);
  return error;
}

int run(seam::GeneralizedCallbacks* of, int what, seam::Status* neutral, int complete) {
  auto* g = reinterpret_cast<Generalized*>(of);
  if (what == seam::kQueryGeneralized) {
    MPI_Status status{};
    constants::from_seam_status(*neutral, &status);
    const int error = g->fortran ? call_fortran(g->query, g->extra, reinterpret_cast<MPI_Fint*>(&status))
                                 : g->query(g->extra, &status);
    *neutral = status_in(status);
    return error;
  }
  if (what == seam::kCancelGeneralized) {
    MPI_Fint done = complete;
    return g->fortran ? call_fortran(g->cancel, g->extra, &done) : g->cancel(g->extra, complete);
  }
  MPI_Fint error = MPI_SUCCESS;
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

}  // namespace

MPI_FUNCTION(int, Grequest_start, MPI_Grequest_query_function* query, MPI_Grequest_free_function* released,
             MPI_Grequest_cancel_function* cancel, void* extra, MPI_Request* request) {
  constexpr seam::Fn kFn = seam::kFn_MPI_Grequest_start;
  if (!request) return fail_mpi_call(kNoObject, null_result(Kind::kRequest, kFn), kFn);
  // Open MPI's Fortran library writes to its own request object after the call; the shim has none for it.
  Dl_info caller;
  if (kIsOpenMpi && dladdr(__builtin_return_address(0), &caller) && caller.dli_fname &&
      strstr(caller.dli_fname, "libmpi_mpifh"))
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
