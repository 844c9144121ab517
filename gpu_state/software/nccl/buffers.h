// Which parts of its buffers a rank reads and writes in a call. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu_state/software/nccl/tasks.h"

namespace cropdl::nccl {

// In blocks of the call's count; 0: the rank does not use that buffer.
struct Blocks {
  size_t read, written;
};
Blocks blocks_of(const Call& call, int rank, int ranks);

}  // namespace cropdl::nccl
