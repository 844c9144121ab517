// Calls that make a communicator: its identity, its record before NCCL makes it, and what is taken back after
// a failure. LH, LH FS base, threads of the program.
#pragma once

#include "interpose/cuda/lower/nccl/state.h"

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

// Copies the arguments; null: the heap is full.
Making* new_making(ncclComm_t* into, const ncclConfig_t* config);
void give_back(Making* making);

bool joins(const Call& call);    // makes one by an id
bool shrinks(const Call& call);  // makes one without some members of an existing one

// The identity of the communicator that a call makes, from what all members know.
uint64_t identity_of_made(const Call& call);
// Lists the communicator, without a real handle. True for other calls; false: the heap is full.
bool prepare(const Call& call);
// Undoes prepare() after a failure, which other members need not have had.
void take_back(const Call& call);

}  // namespace cropdl::cuda::nccl
