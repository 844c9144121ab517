// The runtime's functions for pinned memory (pinned.h). UH, any thread, UH FS base.
#include "interpose/cuda/upper/pinned.h"

#include <cuda_runtime_api.h>

#include "cudart_functions.h"
#include "interpose/cuda/upper/errors.h"

using namespace cropdl;
using namespace cropdl::cuda_shim;
namespace own = cropdl::seam::cudart;

extern "C" {

cudaError_t cudaHostAlloc(void** p, size_t size, unsigned flags) {
  if (!p) return noted(cudaErrorInvalidValue);
  *p = nullptr;
  if (size == 0) return cudaSuccess;
  return noted(make_pinned<cudaError_t>(own::kFn_cudaHostAlloc, p, size, flags));
}
cudaError_t cudaMallocHost(void** p, size_t size) { return cudaHostAlloc(p, size, 0); }
cudaError_t cudaFreeHost(void* p) { return free_pinned<cudaError_t>(own::kFn_cudaFreeHost, p); }

}  // extern "C"
