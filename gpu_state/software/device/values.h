// Values in memory that streams wait for and write: cuStreamWaitValue32 and its kin, in streams and in nodes.
// Source: CUDA Driver API, "Stream Memory Operations".
#pragma once

#include "gpu_state/software/device/work.h"

namespace cropdl::device {

// CUDA_ERROR_INVALID_VALUE: an operation that there is not, unknown flags, an address that is not aligned or
// no memory of the context's. CUDA_ERROR_NOT_SUPPORTED: flushes of remote writes (there are none here).
CUresult values_from(CUcontext context, const CUstreamBatchMemOpParams* parameters, unsigned count,
                     ValueWork* work);

}  // namespace cropdl::device
