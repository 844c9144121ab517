#include "gpu_state/software/blas/handle.h"

namespace cropdl::blas {

CUcontext current_context() {
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuCtxGetCurrent(&context) != CUDA_SUCCESS) return nullptr;
  if (!context &&
      (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS))
    return nullptr;
  return context;
}

}  // namespace cropdl::blas
