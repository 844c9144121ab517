// Translates values between the seam and the MPI: the rare cases of runtime.h's inline functions. LH, any
// thread.
#include "base/format.h"
#include "base/say.h"
#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {
int error_class_out(int code) {
  int real = MPI_ERR_UNKNOWN;
  if (MPI_Error_class(code, &real) != MPI_SUCCESS) return seam::kErrUnknown;
  return constants::to_seam_error(real, seam::kErrOther);
}

// An invalid level requests the highest.
int thread_level_in(int level) {
  return level < seam::kThreadSingle || level > seam::kThreadMultiple
             ? MPI_THREAD_MULTIPLE
             : constants::from_seam_thread_level(level);
}

MPI_Status status_in(const seam::Status& from) {
  MPI_Status to{};
  constants::from_seam_status(from, &to);
  to.MPI_ERROR = constants::from_seam_error(from.error);
  return to;
}

void say_of_rank(const std::string& line) {
  cropdl::say(formatted("cropdl: rank {}: {}", state ? state->rank : -1, line));
}

void say_heap_is_full(uint32_t function) {
  say_of_rank(
      formatted("{}: the persistent heap is full; raise the limit of memory (ulimit -v, or the job's)",
                function_name(function)));
}

}  // namespace cropdl::mpi
