#include "gpu_state/software/nccl/communicator.h"

#include <chrono>

#include "base/format.h"
#include "base/say.h"
#include "gpu_state/software/nccl/current.h"
#include "gpu_state/software/threads/threads.h"

ncclComm::~ncclComm() {
  if (segment) segment->leave(aborted.load() ? cropdl::nccl::kAborted : cropdl::nccl::kFinished);
}

namespace cropdl::nccl {

namespace {

std::mutex& live_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::map<ncclComm*, Communicator>& live() {
  static auto* map = new std::map<ncclComm*, Communicator>;
  return *map;
}

std::string& error_of_this_thread() {
  thread_local std::string text;
  return text;
}

// Running work now sees the flag, and so does a thread that is still making the communicator.
void end_launches(ncclComm& communicator) {
  communicator.aborted.store(true);
  if (communicator.made.load() && communicator.segment) communicator.segment->ring(communicator.rank);
}

void leave(ncclComm& communicator, State how) {
  std::lock_guard running(communicator.running);  // running work has ended
  if (communicator.made.load() && communicator.segment) communicator.segment->leave(how);
}

void wait_for_graphs(ncclComm& communicator) {
  std::unique_lock lock(communicator.counting);
  auto none = [&] { return communicator.held_by_graphs == 0; };
  if (communicator.given_back.wait_for(lock, std::chrono::seconds(1), none)) return;
  int left = communicator.held_by_graphs;
  lock.unlock();
  say(
      formatted("software NCCL: rank {} waits with the end of its communicator until the graphs that "
                "captured work of it, and the executables made of them, are destroyed ({} captured launches)",
                communicator.rank, left));
  lock.lock();
  communicator.given_back.wait(lock, none);
}

ncclResult_t flush(ncclComm& communicator) {
  CUresult result = CUDA_SUCCESS;
  if (communicator.launched) {
    Current current(communicator.context);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;  // works during the user's captures, too
    cuThreadExchangeStreamCaptureMode(&mode);
    result = cuEventSynchronize(communicator.last_launch);
    cuThreadExchangeStreamCaptureMode(&mode);
  }
  wait_for_graphs(communicator);
  return result == CUDA_SUCCESS ? ncclSuccess
                                : failed(ncclUnhandledCudaError, "the device's context is broken");
}

}  // namespace

ncclResult_t failed(ncclResult_t result, std::string why) {
  error_of_this_thread() = std::move(why);
  return result;
}

ncclResult_t refused(const std::string& line) {
  say("software NCCL: " + line);
  return failed(ncclInvalidUsage, line);
}

ncclResult_t taken(CUresult result) {
  if (result == CUDA_SUCCESS) return ncclSuccess;
  const char* text = nullptr;
  cuGetErrorString(result, &text);
  return failed(ncclUnhandledCudaError,
                formatted("the stream takes no work: {}", text ? text : "unknown error"));
}

const char* last_error() { return error_of_this_thread().c_str(); }

void publish(const Communicator& communicator) {
  std::lock_guard lock(live_mutex());
  live()[communicator.get()] = communicator;
}

Communicator find(ncclComm* handle) {
  std::lock_guard lock(live_mutex());
  auto found = live().find(handle);
  return found == live().end() ? nullptr : found->second;
}

void discard(const Communicator& communicator) {
  {
    std::lock_guard lock(live_mutex());
    if (!live().erase(communicator.get())) return;
  }
  Current current(communicator->context);
  cuEventDestroy(communicator->last_launch);
}

bool perform(ncclComm* communicator, const std::vector<Call>& calls) {
  std::string wrong;
  run(calls, *communicator->segment, {&communicator->aborted, &communicator->error}, &wrong);
  if (wrong.empty()) return true;
  say("software NCCL: " + wrong);
  communicator->error.store(ncclInvalidUsage);
  return false;
}

ncclResult_t state_of(const ncclComm& communicator) {
  int error = communicator.error.load();
  if (!error && communicator.children_in_the_making.load()) return ncclInProgress;
  return static_cast<ncclResult_t>(error);
}

ncclResult_t check(const Communicator& communicator) {
  if (communicator) return ncclSuccess;
  return failed(ncclInvalidArgument, "the communicator is null, or has been destroyed");
}

ncclResult_t check_state(const Communicator& communicator) {
  if (ncclResult_t result = check(communicator)) return result;
  ncclResult_t state = state_of(*communicator);
  if (state == ncclInProgress)
    return failed(ncclInvalidArgument,
                  "the communicator, or one made of it, is still in the making or being finalized: ask "
                  "ncclCommGetAsyncError until it is not ncclInProgress");
  if (state) return failed(state, "the communicator has an error: see ncclCommGetAsyncError");
  return ncclSuccess;
}

ncclResult_t check_ready(const Communicator& communicator) {
  if (ncclResult_t result = check_state(communicator)) return result;
  if (communicator->revoked.load()) return failed(ncclInvalidUsage, "the communicator has been revoked");
  if (communicator->aborted.load()) return failed(ncclInvalidArgument, "the communicator has been aborted");
  if (communicator->finalized) return failed(ncclInvalidArgument, "the communicator has been finalized");
  return ncclSuccess;
}

ncclResult_t finalize(const Communicator& communicator) {
  communicator->finalized = true;
  if (communicator->blocking) return flush(*communicator);
  int none = ncclSuccess;
  if (!communicator->error.compare_exchange_strong(none, ncclInProgress))
    return static_cast<ncclResult_t>(none);  // at this moment
  auto work = [communicator] {
    ncclResult_t result = flush(*communicator);
    int in_progress = ncclInProgress;  // or an error that occurred meanwhile
    communicator->error.compare_exchange_strong(in_progress, result);
  };
  if (!threads::start(work)) work();  // the system provides no thread: the caller waits
  return ncclInProgress;
}

ncclResult_t revoke(const Communicator& communicator) {
  if (!communicator->made.load() || !communicator->segment)
    return failed(ncclInvalidArgument, "the communicator has not been made");
  communicator->revoked.store(true);
  end_launches(*communicator);
  std::lock_guard running(communicator->running);  // running work has ended
  communicator->error.store(ncclSuccess);
  return ncclSuccess;
}

ncclResult_t destroy(const Communicator& communicator, bool abort) {
  if (abort) {
    communicator->revoked.store(false);
    end_launches(*communicator);
    leave(*communicator, kAborted);  // the other ranks need not wait for graphs
    wait_for_graphs(*communicator);
  } else if (!communicator->finalized) {
    flush(*communicator);
  }
  discard(communicator);
  leave(*communicator, abort ? kAborted : kFinished);
  return ncclSuccess;
}

}  // namespace cropdl::nccl
