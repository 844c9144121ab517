// Generalized requests: the MPI underneath has one for each, and calls the program's functions through the
// shim. There is no recipe, so no checkpoint while one lives. LH, LH FS base, threads of the program; the
// program's functions run above the MPI's frames with the UH's FS base.
#include "interpose/seam/generalized.h"

#include "interpose/mpi/lower/state.h"
#include "lower_functions.h"

namespace {

namespace seam = cropdl::seam;
using cropdl::seam::GeneralizedCallbacks;

int call(void* callbacks, int what, seam::Status* status, int complete) {
  auto* c = static_cast<GeneralizedCallbacks*>(callbacks);
  return seam::call_upper<int>(c->call, c, what, status, complete);
}

int query(void* callbacks, MPI_Status* real) {
  seam::Status status = cropdl::mpi::empty_status();
  const int code = call(callbacks, seam::kQueryGeneralized, &status, 0);
  const int error = real->MPI_ERROR;
  *real = cropdl::mpi::status_in(status);
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
  *request = cropdl::mpi::kNullRequest;
  const cropdl::mpi::AdoptedRequestPlace place;
  if (!place) return seam::kErrIntern;
  MPI_Request real = MPI_REQUEST_NULL;
  const int code = MPI_Grequest_start(query, released, cancelled, callbacks, &real);
  if (code != MPI_SUCCESS) return cropdl::mpi::error_out(code);
  *request = cropdl::mpi::adopt_request(real, seam::kFn_MPI_Grequest_start);
  return seam::kSuccess;
}

int lower_MPI_Grequest_complete(Vid request) {
  if (seam::vid_index(request) == 0) return seam::kErrRequest;
  return cropdl::mpi::error_out(MPI_Grequest_complete(cropdl::mpi::request(request)));
}

}  // extern "C"
