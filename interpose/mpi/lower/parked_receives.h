// Pending receives at a cut: cancelled for the image, and posted again in their order. LH, LH FS base, the
// parked main thread, or before the program runs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {

class ParkedReceives {
 public:
  // After the drain: cancels the pending receives, for post() to post again in the same order. Returns a code
  // of the MPI. On an error, the failing receive, begun by `maker`, is pending or complete with the error;
  // others may be parked.
  int park(uint32_t* maker);
  // Posts the receives that park() has parked; one that cannot be posted completes with the error. Returns
  // the first error. Throws nothing and allocates nothing.
  int post();
  int post_those_of_image();  // at a restart

 private:
  template <class F>
  void list(F chosen);

  // The receives that may be parked, in the order in which they were posted, each with its serial number.
  // Kept from park() to post(), which follows a write that perhaps failed for lack of memory, and therefore
  // must not allocate.
  std::vector<std::pair<uint64_t, Vid>> at_cut_;
};

}  // namespace cropdl::mpi
