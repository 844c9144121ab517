// How calls become work of a stream. The library is built twice: work_software.cpp is over the software GPU's
// own interface (library_work.h), work_public.cpp over the public driver API alone, for any device.
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

extern const char* const kBuild;  // for people: which of the two

// When a communicator is made: what its device and this build need. With its context current.
ncclResult_t prepare(ncclComm* communicator);

// Adds to the launch the steps that add the calls to the stream, as one piece of work, which keeps the
// communicator alive. With its context current.
ncclResult_t give(CUstream stream, const std::vector<Call>& calls, Launch* launch);
// Adds the calls to a stream that is captured.
ncclResult_t give_captured(const Communicator& communicator, CUstream stream, cuuint64_t capture,
                           const std::vector<Call>& calls);

}  // namespace cropdl::nccl
