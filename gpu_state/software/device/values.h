// Values in memory that streams and nodes wait for and write: cuStreamWaitValue32 and similar. Source: CUDA
// Driver API, "Stream Memory Operations".
#pragma once

#include "gpu_state/software/device/work.h"

namespace cropdl::device {

// CUDA_ERROR_INVALID_VALUE: an unknown operation or flag, an address that is unaligned or not memory of the
// context. CUDA_ERROR_NOT_SUPPORTED: flushes of remote writes (none exist here).
CUresult values_from(CUcontext context, const CUstreamBatchMemOpParams* parameters, unsigned count,
                     ValueWork* work);

}  // namespace cropdl::device
