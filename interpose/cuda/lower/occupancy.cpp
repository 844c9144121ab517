// cuOccupancyMaxPotentialBlockSize: the driver calls a function of the program, on the calling thread, for
// the shared memory that a block of each size needs. LH, LH FS base, any thread.
#include "interpose/cuda/lower/real.h"
#include "interpose/one_abi/kinds.h"
#include "interpose/seam/thread.h"

namespace rt = cropdl::one_abi;
namespace kind = rt::kind;

namespace cropdl::cuda {
namespace {

// The driver's callback has no data argument.
thread_local CUoccupancyB2DSize asked = nullptr;

size_t ask(int block) { return seam::call_upper(asked, block); }

class Asking {
 public:
  explicit Asking(CUoccupancyB2DSize function) : before_(asked) { asked = function; }
  ~Asking() { asked = before_; }
  Asking(const Asking&) = delete;

 private:
  CUoccupancyB2DSize before_;
};

}  // namespace
}  // namespace cropdl::cuda

using namespace cropdl::cuda;

extern "C" {

CUresult lower_cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                                CUoccupancyB2DSize size, size_t shared, int limit) {
  rt::Call call;
  const Asking asking(size);
  return CROPDL_DRIVER(cuOccupancyMaxPotentialBlockSize)(grid, block, rt::real(function, kind::cudaFunction),
                                                         size ? ask : nullptr, shared, limit);
}
CUresult lower_cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                         CUoccupancyB2DSize size, size_t shared, int limit,
                                                         unsigned flags) {
  rt::Call call;
  const Asking asking(size);
  return CROPDL_DRIVER(cuOccupancyMaxPotentialBlockSizeWithFlags)(
      grid, block, rt::real(function, kind::cudaFunction), size ? ask : nullptr, shared, limit, flags);
}

}  // extern "C"
