// Turns calls into stream work.
#pragma once

#include "gpu_state/software/nccl/communicator.h"

namespace cropdl::nccl {

// Submits one communicator's calls to a stream as one piece of work. With the communicator's context current.
ncclResult_t launch(const Communicator& communicator, CUstream stream, const std::vector<Call>& calls);

}  // namespace cropdl::nccl
