// The runtime's functions that take a host function of the program. UH, any thread, UH FS base.
#include <cuda_runtime_api.h>

#include "cudart_functions.h"
#include "interpose/cuda/upper/callbacks.h"

using cropdl::cuda_shim::call_with_callback;
namespace seam = cropdl::seam::cudart;

extern "C" {

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* data) {
  return call_with_callback<cudaError_t>(seam::kFn_cudaLaunchHostFunc, stream, fn, data);
}
cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t fn, void* data) {
  return call_with_callback<cudaError_t>(seam::kFn_cudaLaunchHostFunc_ptsz, stream, fn, data);
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned flags) {
  return call_with_callback<cudaError_t>(seam::kFn_cudaStreamAddCallback, stream, callback, data, flags);
}
cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                       unsigned flags) {
  return call_with_callback<cudaError_t>(seam::kFn_cudaStreamAddCallback_ptsz, stream, callback, data, flags);
}

}  // extern "C"
