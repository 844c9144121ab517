// NCCL calls that must begin together. Calls between ncclGroupStart and ncclGroupEnd are kept in the
// persistent heap and go to NCCL when the group ends and all may begin, so a thread can be saved inside a
// group. LH, LH FS base, threads of the program.
#pragma once

#include "interpose/cuda/lower/nccl/making.h"
#include "interpose/seam/thread.h"

namespace cropdl::cuda::nccl {

inline uint64_t open_group() {
  uint64_t group;
  __asm__ volatile("movq %%gs:%c1, %0" : "=r"(group) : "i"(offsetof(seam::ThreadRecord, nccl_group)));
  return group;
}

// Inside a group: keeps the call. Alone: runs it, or returns kAgain.
ncclResult_t submit(const Call& call);

// Passes the call to the library, alone or inside a real group. The new communicator's real handle goes to
// making->made.
ncclResult_t perform(const Call& call);

}  // namespace cropdl::cuda::nccl
