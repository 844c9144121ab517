// The execution of one NCCL call when it is its turn in the stream: a task advances repeatedly, as far as its
// peers allow. Runs on a stream's thread or a proxy's; one communicator's tasks run on one thread at a time.
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

// A call with its arguments. Buffers are device, managed or pinned memory (or, in a task, memory that the
// task's thread may access); counts are in elements, as in nccl.h.
struct Call {
  Kind kind;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  ncclDataType_t datatype = ncclInt8;
  ncclRedOp_t operation = ncclSum;  // as given by the caller, for comparison between ranks
  Reduction reduction;
  const void* device_scalar =
      nullptr;   // a user-defined operation's scalar in device memory: read when the task runs
  int root = 0;  // or the peer
};

class Task {
 public:
  virtual ~Task() = default;
  // Does what is possible now; returns whether anything was done.
  virtual bool advance() = 0;
  bool finished = false;
  std::string wrong;  // not empty: the ranks disagree, and the communicator is unusable
};

std::unique_ptr<Task> make_task(const Call& call, Segment& segment);

// Advances all tasks until they are complete: point-to-point tasks concurrently, collectives one after the
// other in the order of the calls. Returns false if *aborted ended it. Calls `lost` while a missing peer
// prevents completion (NVIDIA's NCCL hangs too, until the communicator is aborted).
struct Watch {
  const std::atomic<bool>* aborted;
  std::atomic<int>* asynchronous_error;  // ncclResult_t
};
bool run(const std::vector<Call>& calls, Segment& segment, const Watch& watch, std::string* wrong);

}  // namespace cropdl::nccl
