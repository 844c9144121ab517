// ncclGroupStart … ncclGroupEnd: calls in between are collected and executed together. Per thread.
#pragma once

#include <cuda.h>
#include <nccl.h>

#include "gpu_state/software/nccl/making.h"

namespace cropdl::nccl {

ncclResult_t group_start();
ncclResult_t group_end();
bool in_group();
// Discards the group's calls after an error in one of them; GroupEnd returns it.
ncclResult_t spoil(ncclResult_t result);

// Outside of a group, executes at once; inside, at its end.
ncclResult_t enqueue(const Communicator& communicator, CUstream stream, Call call);
// The handle is valid at once, in the current context; the ranks connect at the group's end.
ncclResult_t enqueue(Making making);

}  // namespace cropdl::nccl
