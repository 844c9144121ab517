// The driver's functions that take a host function of the program. UH, any thread, UH FS base.
#include "interpose/gen/driver/undeclared.h"
//
#include "driver_functions.h"
#include "interpose/cuda/upper/callbacks.h"

using cropdl::cuda_shim::call_with_callback;
namespace seam = cropdl::seam::driver;

extern "C" {

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void* data) {
  return call_with_callback<CUresult>(seam::kFn_cuLaunchHostFunc, stream, fn, data);
}
CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn fn, void* data) {
  return call_with_callback<CUresult>(seam::kFn_cuLaunchHostFunc_ptsz, stream, fn, data);
}
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned flags) {
  return call_with_callback<CUresult>(seam::kFn_cuStreamAddCallback, stream, callback, data, flags);
}
CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void* data, unsigned flags) {
  return call_with_callback<CUresult>(seam::kFn_cuStreamAddCallback_ptsz, stream, callback, data, flags);
}

}  // extern "C"
