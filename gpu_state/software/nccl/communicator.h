// ncclComm_t: the ranks' shared memory, the order of launches, user-defined operations. Host side. Any
// thread, but two threads must not call functions on one communicator concurrently (nccl.h), except
// ncclCommAbort and ncclCommGetAsyncError.
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

namespace cropdl::nccl {
class Proxy;
}

// Reference counted: work in streams and graphs, and threads that make child communicators, keep it alive
// after its handle is destroyed.
struct ncclComm {
  ~ncclComm();

  int rank = 0, ranks = 0, device = 0;
  CUcontext context = nullptr;
  bool blocking = true;
  std::string token;                               // names the segment, and those of child communicators
  std::unique_ptr<cropdl::nccl::Segment> segment;  // set once it is made
  std::atomic<bool> made{false};
  std::atomic<bool> aborted{false};        // running work ends, and later work is dropped
  std::atomic<bool> revoked{false};        // … but child communicators can still be made
  std::atomic<int> error{ncclInProgress};  // ncclResult_t; ncclInProgress while it is being made or finalized
  bool finalized = false;

  std::mutex running;                          // held by the thread that runs tasks
  std::shared_ptr<cropdl::nccl::Proxy> proxy;  // set only in the build over the public driver API

  // Captured launches that graphs or their copies still have: ending the communicator waits for them, aborted
  // or not, as in NVIDIA's NCCL (init.cc, commDestroySync, "localPersistentRefs").
  std::mutex counting;
  std::condition_variable given_back;
  int held_by_graphs = 0;

  // Launches of one communicator run in the order of the calls, also across streams and graphs, as in
  // NVIDIA's NCCL.
  CUevent last_launch = nullptr;
  bool launched = false;
  unsigned long long last_stream = 0;      // id of the stream of the last eager launch
  cuuint64_t last_capture = 0;             // id of the capture of the last captured launch; 0: none
  std::vector<CUgraphNode> last_captured;  // … and its last nodes

  uint64_t splits = 0;
  std::map<uint64_t, uint64_t> shrinks;        // by the excluded ranks, one bit each: these do not know of it
  std::atomic<int> children_in_the_making{0};  // child communicators that are being made in the background
  std::mutex splitting;                        // for exchanges among the ranks: one split at a time
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

// Returns the result, and sets the text of ncclGetLastError for this thread.
ncclResult_t failed(ncclResult_t result, std::string why);
// ncclInvalidUsage, with a line that is said as well.
ncclResult_t refused(const std::string& line);
// ncclSuccess, or the error of a call of the driver's with its text.
ncclResult_t taken(CUresult result);
const char* last_error();

// The table of valid handles.
void publish(const Communicator& communicator);
Communicator find(ncclComm* handle);  // null: not valid, or not any more
// Invalidates the handle and destroys the event; at most once.
void discard(const Communicator& communicator);

// Does the calls, whose buffers this thread may access. False: the ranks do not call the same, which has been
// said and is the communicator's error. With `running` locked.
bool perform(ncclComm* communicator, const std::vector<Call>& calls);

// The result of ncclCommGetAsyncError.
ncclResult_t state_of(const ncclComm& communicator);

// Whether find() found a communicator; otherwise ncclInvalidArgument. Another thread may abort it at any
// time, so a call looks it up once and keeps the reference.
ncclResult_t check(const Communicator& communicator);
// … and nothing on it is in progress, and it has no error.
ncclResult_t check_state(const Communicator& communicator);
// … and it accepts calls: not aborted, revoked or finalized.
ncclResult_t check_ready(const Communicator& communicator);

// Waits for launched work and for graphs that contain some; in the call, or in the background if the
// communicator is nonblocking.
ncclResult_t finalize(const Communicator& communicator);
// Ends running work and drops pending work; child communicators can still be made.
ncclResult_t revoke(const Communicator& communicator);
// Waits for launched work, or ends it, waits for graphs, and detaches. The handle becomes invalid.
ncclResult_t destroy(const Communicator& communicator, bool abort);

}  // namespace cropdl::nccl
