// Calls cut into rounds for which the staging memory suffices: a round copies what the rank gives into the
// memory, does its calls there, and copies the results out. Pure.
//
// Every call is cut into pieces, in the same way by all ranks. A call by itself, and a group of collectives,
// become as many rounds as needed. A group with messages is one round: a message may need another one of the
// group to arrive first, so no piece may wait for the end of a round. Its memory is as large as its messages.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu_state/software/nccl/tasks.h"

namespace cropdl::nccl {

// In bytes. The transfer of so many takes longer than the start of a round.
constexpr size_t kStaging = 2 << 20;

struct StagedCopy {
  const void* address;  // of the program
  size_t at, bytes;     // in the staging memory
};
struct StagedCall {
  Call call;  // a piece; its buffers are at these places of the staging memory
  size_t send = 0, receive = 0, scalar = 0;
};
struct Round {
  std::vector<StagedCopy> in, out;
  std::vector<StagedCall> calls;
  size_t bytes = 0;
};

std::vector<Round> rounds_of(const std::vector<Call>& calls, int rank, int ranks);

}  // namespace cropdl::nccl
