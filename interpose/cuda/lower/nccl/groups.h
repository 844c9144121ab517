// Calls of NCCL's that have to begin together. Between ncclGroupStart and ncclGroupEnd they are kept, in the
// persistent heap: NCCL hears of them when the group ends and all of them may begin, so that a thread may be
// saved within a group. LH, LH FS base, threads of the program.
#pragma once

#include "interpose/cuda/lower/nccl/state.h"
#include "interpose/seam/thread.h"

namespace cropdl::cuda::nccl {

// Of a call that makes a communicator. Its texts and arrays are the call's own.
struct Making {
  ncclComm_t* into;
  int ranks, rank;  // by an id
  int ids;
  ncclUniqueId* id;
  int color, key;  // of a split
  int excluded_ranks;
  int* excluded;  // of a shrink
  uint32_t has_config;
  ncclConfig_t config;
  Communicator* made;           // while it is under way; null also of who has no color
  const ncclConfig_t* strange;  // the program's, of no header of NCCL's: the library's to refuse
};

inline uint64_t open_group() {
  uint64_t group;
  __asm__ volatile("movq %%gs:%c1, %0" : "=r"(group) : "i"(offsetof(seam::ThreadRecord, nccl_group)));
  return group;
}

// In a group: kept. Alone: done, or kAgain.
ncclResult_t submit(const Call& call);
// Copies what the call needs; null: the heap is full.
Making* new_making(ncclComm_t* into, const ncclConfig_t* config);
void give_back(Making* making);

// The library is told; alone, or within a group of its own. One result, of a communicator-making call through
// making->made.
ncclResult_t perform(const Call& call);

}  // namespace cropdl::cuda::nccl
