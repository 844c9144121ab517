// Turns calls into stream work.
#pragma once

#include <functional>

#include "gpu_state/software/nccl/communicator.h"

namespace cropdl::nccl {

// One communicator's calls on their way into a stream. A stream takes only so much work before it blocks its
// caller, and it may wait for other ranks that the same thread launches: so these take turns.
struct Launch {
  Communicator communicator;
  std::vector<std::function<ncclResult_t()>> steps;  // in order, until one fails
  std::function<ncclResult_t()> at_end;              // also after a failure; may be null
};

// Prepares to submit the calls as one piece of work. This and the steps: with the communicator's context
// current.
ncclResult_t begin_launch(CUstream stream, std::vector<Call> calls, Launch* launch);

// Does the steps of all launches, by turns. Returns the first failure.
ncclResult_t finish_launches(std::vector<Launch>* launches);

}  // namespace cropdl::nccl
