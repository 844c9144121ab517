// ncclComm_t: its ranks' shared memory, the order of its launches, the operations that its user defined. The
// host's side; any thread, but two threads must not make calls for one communicator at the same time
// (nccl.h).
#pragma once

#include <cuda.h>
#include <nccl.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gpu_state/software/nccl/segment.h"
#include "gpu_state/software/nccl/tasks.h"

struct ncclComm {
  int rank = 0, ranks = 0, device = 0;
  CUcontext context = nullptr;
  bool blocking = true;
  std::string token;  // names the segment, and those of communicators made of this one
  std::unique_ptr<cropdl::nccl::Segment> segment;
  std::atomic<bool> aborted{false};
  std::atomic<int> asynchronous_error{
      0};              // ncclResult_t, what ncclCommGetAsyncError says; ncclInProgress while it is made
  std::thread making;  // of initialisation that does not block
  std::mutex running;  // held by the stream's thread while tasks run
  std::atomic<int> users{0};  // streams' threads that are at it: it stays until there is none
  // Launches of one communicator are ordered also across streams, as NCCL's are.
  CUstream last_stream = nullptr;
  CUevent last_launch = nullptr;
  bool launched = false;
  uint64_t splits = 0, shrinks = 0;
  bool finalized = false;

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

// A result, and the line that ncclGetLastError gives in this thread.
ncclResult_t failed(ncclResult_t result, std::string why);
const char* last_error();

// Whether the handle is one that lives; else ncclInvalidArgument.
ncclResult_t check(ncclComm* communicator);
// … and is ready for calls: not in the making, not aborted, without an error.
ncclResult_t check_ready(ncclComm* communicator);

// What a communicator is made of. `begin` gives the handle, `complete` blocks until all ranks are there, and
// takes the handle back when that fails. In the context that is current where `begin` is called.
struct Making {
  ncclComm** into = nullptr;
  int rank = 0, ranks = 0;
  std::string token;
  bool blocking = true;
  CUcontext context = nullptr;  // null: the calling thread's
  ncclComm* parent = nullptr;   // of splits
  int color = 0, key = 0;
  bool is_split = false;
  uint64_t number = 0;  // of this split of the parent
};
ncclResult_t begin(const Making& making);
ncclResult_t complete(const Making& making);

// Waits for what was launched, and leaves. The handle is gone.
ncclResult_t destroy(ncclComm* communicator, bool abort);
ncclResult_t finalize(ncclComm* communicator);

// Hands one communicator's calls to a stream as one piece of work.
ncclResult_t launch(ncclComm* communicator, CUstream stream, std::vector<Call> calls);

std::string token_of(const ncclUniqueId& id);

}  // namespace cropdl::nccl
