// NCCL calls that must begin together. Calls between ncclGroupStart and ncclGroupEnd are kept in the
// persistent heap and go to NCCL when the group ends and all may begin, so a thread can be saved inside a
// group. LH, LH FS base, threads of the program.
#pragma once

#include "interpose/cuda/lower/nccl/state.h"
#include "interpose/seam/thread.h"

namespace cropdl::cuda::nccl {

// Arguments of a call that makes a communicator. Owns its texts and arrays.
struct Making {
  ncclComm_t* into;
  int ranks, rank;  // of ncclCommInitRank*
  int ids;
  ncclUniqueId* id;
  int color, key;  // of a split
  int excluded_ranks;
  int* excluded;  // of a shrink
  uint32_t has_config;
  ncclConfig_t config;
  Communicator* made;           // during the call; null also for a split without a color
  const ncclConfig_t* strange;  // the program's config with an unknown magic, which the library must refuse
};

inline uint64_t open_group() {
  uint64_t group;
  __asm__ volatile("movq %%gs:%c1, %0" : "=r"(group) : "i"(offsetof(seam::ThreadRecord, nccl_group)));
  return group;
}

// Inside a group: keeps the call. Alone: runs it, or returns kAgain.
ncclResult_t submit(const Call& call);
// Copies the arguments; null: the heap is full.
Making* new_making(ncclComm_t* into, const ncclConfig_t* config);
void give_back(Making* making);

// Passes the call to the library, alone or inside a real group. The new communicator's real handle goes to
// making->made.
ncclResult_t perform(const Call& call);

}  // namespace cropdl::cuda::nccl
