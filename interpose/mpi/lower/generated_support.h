// Support for the generated lower table beside runtime.h: functions that the MPI lacks, lengths of arrays
// that follow from a communicator, arrays that a nonblocking call keeps reading. LH only, LH FS base.
#pragma once

#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <atomic>
#include <string>

#include "base/format.h"
#include "base/say.h"
#include "interpose/mpi/lower/runtime.h"
#include "interpose/seam/type_contents.h"

namespace cropdl::mpi::generated {

// The program's MPI has the function, the MPI underneath does not. Says so once per process.
inline int missing_function(const char* name) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
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

// Number of ranks that an alltoall on `vid` exchanges with.
inline int peers(seam::Vid vid) {
  int inter = 0, n = 0;
  MPI_Comm_test_inter(comm(vid), &inter);
  inter ? MPI_Comm_remote_size(comm(vid), &n) : MPI_Comm_size(comm(vid), &n);
  return n;
}

inline void count_neighbors(MPI_Comm c, int* in, int* out) {
  int topology = MPI_UNDEFINED, n = 0, rank = 0;
  *in = *out = 0;
  if (MPI_Topo_test(c, &topology) != MPI_SUCCESS) return;
  if (topology == MPI_CART) {
    MPI_Cartdim_get(c, &n);
    *in = *out = 2 * n;
  } else if (topology == MPI_GRAPH) {
    MPI_Comm_rank(c, &rank);
    MPI_Graph_neighbors_count(c, rank, &n);
    *in = *out = n;
  } else if (topology == MPI_DIST_GRAPH) {
    MPI_Dist_graph_neighbors_count(c, in, out, &n);
  }
}
inline int neighbors_in(seam::Vid vid) {
  int in, out;
  count_neighbors(comm(vid), &in, &out);
  return in;
}
inline int neighbors_out(seam::Vid vid) {
  int in, out;
  count_neighbors(comm(vid), &in, &out);
  return out;
}

// A nonblocking or persistent call may read its arrays of datatypes until its request ends, so the request
// owns them.
template <class H>
struct KeptArray final : Kept {
  KeptArray(const seam::Vid* vids, int n) : array(vids, n) {}
  HandleArray<H> array;
};
template <class H>
HandleArray<H>& keep_array(const seam::Vid* vids, int n) {
  auto* kept = new KeptArray<H>(vids, n);
  keep_for_next_request(kept);
  return kept->array;
}

}  // namespace cropdl::mpi::generated
