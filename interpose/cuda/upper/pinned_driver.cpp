// The driver's functions for pinned memory (pinned.h). UH, any thread, UH FS base.
#include "interpose/cuda/upper/pinned.h"

#include "driver_functions.h"

using namespace cropdl;
using namespace cropdl::cuda_shim;
namespace own = cropdl::seam::driver;

extern "C" {

CUresult cuMemHostAlloc(void** p, size_t size, unsigned flags) {
  if (!p || size == 0) return CUDA_ERROR_INVALID_VALUE;
  return make_pinned<CUresult>(own::kFn_cuMemHostAlloc, p, size, flags);
}
CUresult cuMemAllocHost_v2(void** p, size_t size) { return cuMemHostAlloc(p, size, 0); }
#undef cuMemAllocHost
CUresult cuMemAllocHost(void** p, unsigned size) { return cuMemHostAlloc(p, size, 0); }
CUresult cuMemFreeHost(void* p) { return free_pinned<CUresult>(own::kFn_cuMemFreeHost, p); }

}  // extern "C"
