// cuOccupancyMaxPotentialBlockSize: the driver calls a function of the program, on the calling thread, for
// the shared memory that a block of each size needs. LH, LH FS base, any thread.
#include <utility>

#include "interpose/cuda/lower/real.h"
#include "interpose/seam/thread.h"

using namespace cropdl::cuda;

namespace {

// The driver's callback has no data argument.
thread_local CUoccupancyB2DSize asked = nullptr;

size_t ask(int block) { return cropdl::seam::call_upper(asked, block); }

// `more`: what the function gets after the callback.
template <class F, class... More>
CUresult block_size(RealFunction<F> find, int* grid, int* block, CUfunction function, CUoccupancyB2DSize size,
                    More... more) {
  rt::Call call;
  const CUoccupancyB2DSize before = std::exchange(asked, size);
  const CUresult r = find(grid, block, rt::real(function, kind::cudaFunction), size ? ask : nullptr, more...);
  asked = before;
  return r;
}

}  // namespace

extern "C" {

CUresult lower_cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                                CUoccupancyB2DSize size, size_t shared, int limit) {
  return block_size(CROPDL_DRIVER_FUNCTION(cuOccupancyMaxPotentialBlockSize), grid, block, function, size,
                    shared, limit);
}
CUresult lower_cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                         CUoccupancyB2DSize size, size_t shared, int limit,
                                                         unsigned flags) {
  return block_size(CROPDL_DRIVER_FUNCTION(cuOccupancyMaxPotentialBlockSizeWithFlags), grid, block, function,
                    size, shared, limit, flags);
}

}  // extern "C"
