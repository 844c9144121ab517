// How calls become work of a stream. The library is built twice: work_software.cpp is over the software GPU's
// own interface (library_work.h), work_public.cpp over the public driver API alone, for any device.
#pragma once

#include "gpu_state/software/nccl/launch.h"

namespace cropdl::nccl {

extern const char* const kBuild;  // for people: which of the two

// When a communicator is made: what its device and this build need. With its context current.
ncclResult_t prepare(ncclComm* communicator);

// Adds to the launch the steps that add the calls to the stream, as one piece of work, which keeps the
// communicator alive. With its context current.
ncclResult_t give(CUstream stream, const std::vector<Call>& calls, Launch* launch);
// Adds the calls to a stream that is captured.
ncclResult_t give_captured(const Communicator& communicator, CUstream stream, cuuint64_t capture,
                           const std::vector<Call>& calls);

// Does the calls, whose buffers this thread may access. False: the ranks do not call the same, which has been
// said and is the communicator's error. With `running` locked.
bool perform(ncclComm* communicator, const std::vector<Call>& calls);

// ncclSuccess, or the error of a call of the driver's with its text.
ncclResult_t taken(CUresult result);

}  // namespace cropdl::nccl
