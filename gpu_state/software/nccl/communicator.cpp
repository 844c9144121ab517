#include "gpu_state/software/nccl/communicator.h"

#include "gpu_state/software/nccl/current.h"

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

// Now what runs sees it, or a thread that still makes the communicator does.
void end_launches(ncclComm& communicator) {
  communicator.aborted.store(true);
  if (communicator.made.load() && communicator.segment) communicator.segment->ring(communicator.rank);
}

}  // namespace

ncclResult_t failed(ncclResult_t result, std::string why) {
  error_of_this_thread() = std::move(why);
  return result;
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

ncclResult_t state_of(const ncclComm& communicator) {
  int error = communicator.error.load();
  if (!error && communicator.children_in_the_making.load()) return ncclInProgress;
  return static_cast<ncclResult_t>(error);
}

ncclResult_t check(ncclComm* communicator) {
  if (find(communicator)) return ncclSuccess;
  return failed(ncclInvalidArgument, communicator ? "the communicator is not one, or has been destroyed"
                                                  : "the communicator is null");
}

ncclResult_t check_state(ncclComm* communicator) {
  if (ncclResult_t result = check(communicator)) return result;
  ncclResult_t state = state_of(*communicator);
  if (state == ncclInProgress)
    return failed(ncclInvalidArgument,
                  "the communicator, or one made of it, is still in the making: ask ncclCommGetAsyncError "
                  "until it is not ncclInProgress");
  if (state) return failed(state, "the communicator has an error: see ncclCommGetAsyncError");
  return ncclSuccess;
}

ncclResult_t check_ready(ncclComm* communicator) {
  if (ncclResult_t result = check_state(communicator)) return result;
  if (communicator->revoked.load()) return failed(ncclInvalidUsage, "the communicator has been revoked");
  if (communicator->aborted.load()) return failed(ncclInvalidArgument, "the communicator has been aborted");
  if (communicator->finalized) return failed(ncclInvalidArgument, "the communicator has been finalized");
  return ncclSuccess;
}

ncclResult_t finalize(ncclComm* communicator) {
  communicator->finalized = true;
  if (!communicator->launched) return ncclSuccess;
  Current current(communicator->context);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;  // a capture of the user's is no obstacle
  cuThreadExchangeStreamCaptureMode(&mode);
  CUresult result = cuEventSynchronize(communicator->last_launch);
  cuThreadExchangeStreamCaptureMode(&mode);
  return result == CUDA_SUCCESS ? ncclSuccess
                                : failed(ncclUnhandledCudaError, "the device's context is broken");
}

ncclResult_t revoke(ncclComm* communicator) {
  if (!communicator->made.load() || !communicator->segment)
    return failed(ncclInvalidArgument, "the communicator has not been made");
  communicator->revoked.store(true);
  end_launches(*communicator);
  std::lock_guard running(communicator->running);  // what runs has ended
  communicator->error.store(ncclSuccess);
  return ncclSuccess;
}

ncclResult_t destroy(ncclComm* handle, bool abort) {
  Communicator communicator = find(handle);
  if (!communicator) return failed(ncclInvalidArgument, "the communicator has been destroyed");
  if (abort) {
    communicator->revoked.store(false);
    end_launches(*communicator);
  } else if (!communicator->finalized) {
    finalize(handle);
  }
  discard(communicator);
  std::lock_guard running(communicator->running);
  communicator->destroyed = true;
  if (communicator->made.load() && communicator->segment)
    communicator->segment->leave(abort ? kAborted : kFinished);
  return ncclSuccess;
}

}  // namespace cropdl::nccl
