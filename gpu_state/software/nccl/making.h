// How communicators come to be: of a unique id, or of another communicator.
#pragma once

#include "gpu_state/software/nccl/communicator.h"

namespace cropdl::nccl {

struct Making {
  ncclComm** into = nullptr;  // written during calls only, never by a thread that goes on behind them
  int rank = 0, ranks = 0;
  std::string token;
  bool blocking = true;
  CUcontext context = nullptr;  // null: the parent's or the calling thread's
  Communicator parent;          // of splits and shrinks
  bool is_split = false;
  int color = 0, key = 0;
  uint64_t number = 0;  // of this split of the parent
  Communicator made;    // by begin(); null: whoever has no color
  // Whether the user waits within the call; how a communicator behaves decides about those made of it.
  bool waits() const { return parent ? parent->blocking : blocking; }
};

std::string token_of(const ncclUniqueId& id);

// Gives the handle. In the context that is current here.
ncclResult_t begin(Making* making);
// Blocks until all ranks are there. Any thread.
ncclResult_t complete(const Making& making);

// All of one group, at the same time: each waits for its other ranks, which may be in the same group.
ncclResult_t make_all(std::vector<Making> makings);
// Takes back what begin() gave.
void take_back(const Making& making);

}  // namespace cropdl::nccl
