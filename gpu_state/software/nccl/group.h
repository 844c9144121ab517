// ncclGroupStart … ncclGroupEnd: what a thread says in between is kept and done together. Per thread.
#pragma once

#include <cuda.h>
#include <nccl.h>

#include "gpu_state/software/nccl/making.h"

namespace cropdl::nccl {

ncclResult_t group_start();
ncclResult_t group_end();
bool in_group();
// Discards what the group was told, because of an error in a call; GroupEnd answers with it.
ncclResult_t spoil(ncclResult_t result);

// At once outside a group, at its end inside one.
ncclResult_t enqueue(const Communicator& communicator, CUstream stream, Call call);
// The handle is there at once, and in the context that is current now; the ranks come together at the end.
ncclResult_t enqueue(Making making);

}  // namespace cropdl::nccl
