// Support for the generated lower table beside runtime.h: functions that the MPI lacks, lengths of arrays
// that follow from a communicator. LH only, LH FS base.
#pragma once

#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <atomic>
#include <iterator>

#include "base/format.h"
#include "base/say.h"
#include "interpose/mpi/lower/runtime.h"
#include "interpose/seam/type_contents.h"

namespace cropdl::mpi::generated {

// The program's MPI has the function, the MPI underneath does not. Says so once per function.
inline int missing_function(unsigned index, const char* name) {
  static std::atomic<uint64_t> said[32];
  const uint64_t bit = uint64_t{1} << index % 64;
  if ((said[index / 64 % std::size(said)].fetch_or(bit) & bit) == 0) {
    cropdl::say(
        formatted("cropdl: {} is not offered by the MPI underneath; the call returns an error. Run under the "
                  "program's own MPI to use it.",
                  name));
  }
  return seam::kErrUnsupportedOperation;
}

// The entry of a function that the upper half answers; no shim calls it.
inline int unused_entry() { return seam::kErrIntern; }

inline int* weights_in(const int* weights) {
  return weights == seam::unweighted()      ? MPI_UNWEIGHTED
         : weights == seam::weights_empty() ? MPI_WEIGHTS_EMPTY
                                            : const_cast<int*>(weights);
}
inline MPI_T_pvar_handle all_handles_in(void* handle) {
  return handle == seam::all_variables() ? MPI_T_PVAR_ALL_HANDLES : static_cast<MPI_T_pvar_handle>(handle);
}
// The address of the real handle; null, which the MPI refuses for a bound variable, if there is none.
inline void* tool_object_in(void* object) {
  const auto vid = static_cast<seam::Vid>(reinterpret_cast<uintptr_t>(object));
  uint64_t* word = &real_word(vid);
  return seam::vid_index(vid) != 0 && *word ? word : nullptr;
}

inline int peers(seam::Vid vid) { return constants::peers(comm(vid)); }
inline int neighbors_in(seam::Vid vid) { return constants::neighbors_in(comm(vid)); }
inline int neighbors_out(seam::Vid vid) { return constants::neighbors_out(comm(vid)); }

}  // namespace cropdl::mpi::generated
