// Turns calls into stream work.
#pragma once

#include "gpu_state/software/nccl/work.h"

namespace cropdl::nccl {

// Prepares to submit the calls as one piece of work. This and the steps: with the communicator's context
// current.
ncclResult_t begin_launch(CUstream stream, std::vector<Call> calls, Launch* launch);

// Does the steps of all launches, by turns. Returns the first failure.
ncclResult_t finish_launches(std::vector<Launch>* launches);

}  // namespace cropdl::nccl
