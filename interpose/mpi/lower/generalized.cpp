// Generalized requests: the MPI underneath has one for each and calls the program's functions through the
// shim. Without a recipe, they refuse checkpoints while alive. LH, LH FS base, threads of the program; the
// program's functions run above the MPI's frames, UH FS base.
#include "interpose/seam/mpi_abi.h"

#include "interpose/mpi/lower/state.h"
#include "lower_functions.h"

namespace cropdl::mpi {
namespace {

int call(void* callbacks, int what, seam::Status* status, int complete) {
  auto* c = static_cast<seam::GeneralizedCallbacks*>(callbacks);
  return seam::call_upper<int>(c->call, c, what, status, complete);
}

int query(void* callbacks, MPI_Status* real) {
  seam::Status status = empty_status();
  const int code = call(callbacks, seam::kQueryGeneralized, &status, 0);
  const int error = real->MPI_ERROR;
  *real = status_in(status);
  real->MPI_ERROR = error;
  return code;
}
int released(void* callbacks) { return call(callbacks, seam::kFreeGeneralized, nullptr, 0); }
int cancelled(void* callbacks, int complete) {
  return call(callbacks, seam::kCancelGeneralized, nullptr, complete);
}

}  // namespace

extern "C" {

int lower_MPI_Grequest_start(void* callbacks, Vid* request) {
  *request = kNullRequest;
  const AdoptedRequestPlace place;
  if (!place) return seam::kErrIntern;
  MPI_Request real = MPI_REQUEST_NULL;
  const int code = MPI_Grequest_start(query, released, cancelled, callbacks, &real);
  if (code != MPI_SUCCESS) return error_out(code);
  *request = adopt_request(real, seam::kFn_MPI_Grequest_start);
  return seam::kSuccess;
}

// The program may have freed the request before; it keeps its index for this call.
int lower_MPI_Grequest_complete(Vid request) {
  if (!is_request(request)) return seam::kErrRequest;
  RequestRecord* r = request_record(request);
  if (r->maker != seam::kFn_MPI_Grequest_start) return seam::kErrRequest;
  // Read before the call: during it another thread may complete the request and its record may be reused.
  bool orphan;
  {
    const handles::SpinGuard guard(structure_lock, multiple);
    if (r->ended) return seam::kErrRequest;
    r->ended = 1;
    orphan = r->orphan != 0;
  }
  int code = MPI_Grequest_complete(mpi::request(request));
  if (code == MPI_SUCCESS && orphan) {
    code = MPI_Request_free(real_request(request));
    release_request(request);
  }
  return error_out(code);
}

}  // extern "C"

}  // namespace cropdl::mpi
