// Errors that the runtime's shim finds itself become the thread's last error. UH, any thread, UH FS base.
#pragma once

#include <driver_types.h>

#include "interpose/one_abi/upper.h"
#include "interpose/seam/cuda_shims.h"

namespace cropdl::cuda_shim {

inline cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess && seam::state()->forked == 0)
    seam::call_lower<int>(&seam::control()->libraries[seam::kLibraryCudaShims].table, seam::kNoteError,
                          static_cast<int>(error));
  return error;
}

}  // namespace cropdl::cuda_shim
