// The runtime's functions for pinned memory (pinned.h). UH, any thread, UH FS base.
#include "interpose/cuda/upper/pinned.h"

#include <cuda_runtime_api.h>

#include "cudart_functions.h"
#include "interpose/cuda/upper/errors.h"

using namespace cropdl;
using namespace cropdl::cuda_shim;
namespace own = cropdl::seam::cudart;

namespace {

template <class... Flags>
cudaError_t allocate(unsigned function, void** p, size_t size, Flags... flags) {
  if (!p) return noted(cudaErrorInvalidValue);
  *p = nullptr;
  if (size == 0) return cudaSuccess;
  return noted(static_cast<cudaError_t>(make_pinned(p, size, [&](void** made) {
    return static_cast<int>(one_abi::call_library<cudaError_t>(function, made, size, flags...));
  })));
}

}  // namespace

extern "C" {

cudaError_t cudaHostAlloc(void** p, size_t size, unsigned flags) {
  return allocate(own::kFn_cudaHostAlloc, p, size, flags);
}
cudaError_t cudaMallocHost(void** p, size_t size) { return allocate(own::kFn_cudaMallocHost, p, size); }
cudaError_t cudaFreeHost(void* p) {
  if (one_abi::in_host_function()) return cudaErrorNotPermitted;
  const auto error = one_abi::call_library<cudaError_t>(own::kFn_cudaFreeHost, p);
  if (error == cudaSuccess && p) unmap_pinned(p);
  return error;
}

}  // extern "C"
