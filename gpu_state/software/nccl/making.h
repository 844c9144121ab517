// Makes communicators, from a unique id or from another communicator.
#pragma once

#include "gpu_state/software/nccl/communicator.h"

namespace cropdl::nccl {

struct Making {
  ncclComm** into = nullptr;  // written only during calls, never by a background thread
  int rank = 0, ranks = 0;
  std::string token;
  bool blocking = true;
  CUcontext context = nullptr;  // null: the parent's, or the calling thread's
  Communicator parent;          // for splits and shrinks
  bool is_split = false;
  int color = 0, key = 0;
  uint64_t number = 0;  // counts the parent's splits
  Communicator made;    // set by begin(); null for ranks without a color
  // Whether the user waits inside the call; the parent's mode decides for its children.
  bool waits() const { return parent ? parent->blocking : blocking; }
};

std::string token_of(const ncclUniqueId& id);

// Returns the handle, in the current context.
ncclResult_t begin(Making* making);
// Blocks until all ranks are attached. Any thread.
ncclResult_t complete(const Making& making);

// All of one group, concurrently: each waits for its other ranks, which may be in the same group.
ncclResult_t make_all(std::vector<Making> makings);
// Undoes begin().
void take_back(const Making& making);

}  // namespace cropdl::nccl
