// ncclComm_t: its ranks' shared memory, the order of its launches, the operations that its user defined. The
// host's side; any thread, but two threads must not make calls for one communicator at the same time
// (nccl.h), except for ncclCommAbort and ncclCommGetAsyncError.
#pragma once

#include <cuda.h>
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu_state/software/nccl/segment.h"
#include "gpu_state/software/nccl/tasks.h"

// Work in streams and graphs, and threads that make communicators of it, hold it too: the handle's end is not
// its own.
struct ncclComm {
  ~ncclComm();

  int rank = 0, ranks = 0, device = 0;
  CUcontext context = nullptr;
  bool blocking = true;
  std::string token;  // names the segment, and those of communicators made of this one
  std::unique_ptr<cropdl::nccl::Segment> segment;  // from `made` on
  std::atomic<bool> made{false};
  std::atomic<bool> aborted{false};        // what is under way ends, and what comes later is dropped
  std::atomic<bool> revoked{false};        // … but communicators can still be made of it
  std::atomic<int> error{ncclInProgress};  // ncclResult_t; in progress while it is made, and finalized
  bool finalized = false;

  std::mutex running;  // held by the stream's thread while tasks run

  // Captured launches that graphs, or what was made of them, still have: whoever ends the communicator waits
  // for them, aborted or not, as NVIDIA's NCCL does (init.cc, commDestroySync, "localPersistentRefs").
  std::mutex counting;
  std::condition_variable given_back;
  int held_by_graphs = 0;

  // Launches of one communicator run in the order of the calls, also across streams and graphs, as NCCL's do.
  CUevent last_launch = nullptr;
  bool launched = false;
  unsigned long long last_stream = 0;      // the number of the last eager launch's
  cuuint64_t last_capture = 0;             // the capture that the last captured launch was in; 0: none was
  std::vector<CUgraphNode> last_captured;  // … and the nodes that it ends with

  uint64_t splits = 0, shrinks = 0;
  std::atomic<int> children_in_the_making{0};  // that the user does not wait for in the call
  std::mutex splitting;                        // of the ranks' exchange: one split after another
  std::condition_variable next_split;
  uint64_t splits_done = 0;

  struct UserOperation {
    ncclDataType_t datatype;
    cropdl::nccl::Reduction reduction;
    const void* device_scalar = nullptr;
  };
  std::map<int, UserOperation> operations;  // by ncclRedOp_t, from ncclNumOps on
  int next_operation = ncclNumOps;
  std::map<void*, size_t> registrations;
};

namespace cropdl::nccl {

using Communicator = std::shared_ptr<ncclComm>;

// A result, and the line that ncclGetLastError gives in this thread.
ncclResult_t failed(ncclResult_t result, std::string why);
const char* last_error();

// The handles that there are.
void publish(const Communicator& communicator);
Communicator find(ncclComm* handle);  // null: not one, or not any more
// The handle is gone, and the event; at most once.
void discard(const Communicator& communicator);

// What ncclCommGetAsyncError says.
ncclResult_t state_of(const ncclComm& communicator);

// Whether what find() found for a handle is one; else ncclInvalidArgument. Another thread may abort it at any
// time: a call looks once, and keeps what it has found.
ncclResult_t check(const Communicator& communicator);
// … and nothing of it is in progress, and it has no error.
ncclResult_t check_state(const Communicator& communicator);
// … and it is ready for calls: not aborted, revoked or finalized.
ncclResult_t check_ready(const Communicator& communicator);

// Waits for what was launched and for the graphs that have some of it: in the call or, if the communicator
// does not block, beside the program.
ncclResult_t finalize(const Communicator& communicator);
// Ends what is under way, and drops what was launched besides; communicators can still be made of it.
ncclResult_t revoke(const Communicator& communicator);
// Waits for what was launched, or ends it, waits for graphs, and leaves. The handle is gone.
ncclResult_t destroy(const Communicator& communicator, bool abort);

}  // namespace cropdl::nccl
