// What one call of NCCL does when its turn comes in the stream: a task that advances as far as its peers let
// it, again and again. Run on a stream's thread, one communicator's tasks on one thread at a time.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu_state/software/nccl/reduce.h"
#include "gpu_state/software/nccl/segment.h"

namespace cropdl::nccl {

enum class Kind : uint32_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kReceive
};
const char* name_of(Kind kind);

// A call as it was made. Buffers are device, managed or pinned memory; counts are of elements, as in nccl.h.
struct Call {
  Kind kind;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  ncclDataType_t datatype = ncclInt8;
  ncclRedOp_t operation = ncclSum;  // as the caller said it, for comparison between ranks
  Reduction reduction;
  const void* device_scalar =
      nullptr;   // of a user-defined operation whose scalar lies in device memory: read when it runs
  int root = 0;  // or the peer
};

class Task {
 public:
  virtual ~Task() = default;
  // Does what can be done now; true if anything was done.
  virtual bool advance() = 0;
  bool finished = false;
  std::string wrong;  // not empty: the ranks do not mean the same; the communicator is of no use any more
};

std::unique_ptr<Task> make_task(const Call& call, Segment& segment);

// Advances all until they are finished: point-to-point tasks all at once, collectives one after another, in
// the order of the calls. False: it was ended by *aborted. `lost` is called while a peer that has gone keeps
// them from ever ending (natively they hang as well until the communicator is aborted).
struct Watch {
  const std::atomic<bool>* aborted;
  std::atomic<int>* asynchronous_error;  // ncclResult_t
};
bool run(const std::vector<Call>& calls, Segment& segment, const Watch& watch, std::string* wrong);

}  // namespace cropdl::nccl
