// The driver's functions for pinned memory (pinned.h). UH, any thread, UH FS base.
#include "interpose/cuda/upper/pinned.h"

#include "driver_functions.h"

using namespace cropdl;
using namespace cropdl::cuda_shim;
namespace own = cropdl::seam::driver;

extern "C" {

CUresult cuMemHostAlloc(void** p, size_t size, unsigned flags) {
  if (!p || size == 0) return CUDA_ERROR_INVALID_VALUE;
  return static_cast<CUresult>(make_pinned(p, size, [&](void** made) {
    return static_cast<int>(one_abi::call_library<CUresult>(own::kFn_cuMemHostAlloc, made, size, flags));
  }));
}
CUresult cuMemAllocHost_v2(void** p, size_t size) { return cuMemHostAlloc(p, size, 0); }
#undef cuMemAllocHost
CUresult cuMemAllocHost(void** p, unsigned size) { return cuMemHostAlloc(p, size, 0); }
CUresult cuMemFreeHost(void* p) {
  if (one_abi::in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
  const auto error = one_abi::call_library<CUresult>(own::kFn_cuMemFreeHost, p);
  if (error == CUDA_SUCCESS) unmap_pinned(p);
  return error;
}

}  // extern "C"
