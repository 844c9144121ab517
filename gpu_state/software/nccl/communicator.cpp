#include "gpu_state/software/nccl/communicator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "base/format.h"
#include "base/say.h"
#include "gpu_state/software/device/library_work.h"

namespace cropdl::nccl {

namespace {

// The handles that live: work in a graph may outlast its communicator.
std::mutex& live_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::set<ncclComm*>& live() {
  static auto* set = new std::set<ncclComm*>;
  return *set;
}

std::string& error_of_this_thread() {
  thread_local std::string text;
  return text;
}

// The calling thread's context; as with the runtime, a thread that has none gets the first device's.
CUcontext context_of_this_thread() {
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuCtxGetCurrent(&context) != CUDA_SUCCESS) return nullptr;
  if (context) return context;
  if (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS)
    return nullptr;
  return context;
}

class Current {
 public:
  explicit Current(CUcontext context) { pushed_ = cuCtxPushCurrent(context) == CUDA_SUCCESS; }
  ~Current() {
    CUcontext popped;
    if (pushed_) cuCtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;

 private:
  bool pushed_;
};

struct Work {
  ncclComm* communicator;
  std::vector<Call> calls;
};

bool writes_here(const Call& call, const ncclComm& communicator) {
  if (call.kind == Kind::kSend) return false;
  return (call.kind != Kind::kReduce && call.kind != Kind::kGather) || call.root == communicator.rank;
}

bool reads_here(const Call& call, const ncclComm& communicator) {
  if (call.kind == Kind::kReceive) return false;
  return (call.kind != Kind::kBroadcast && call.kind != Kind::kScatter) || call.root == communicator.rank;
}

CUresult check_buffers(const Call& call, const ncclComm& communicator) {
  size_t block = call.count * size_of(call.datatype), all = block * static_cast<size_t>(communicator.ranks);
  bool spreads =
      call.kind == Kind::kReduceScatter || call.kind == Kind::kAllToAll || call.kind == Kind::kScatter;
  bool collects = call.kind == Kind::kAllGather || call.kind == Kind::kAllToAll || call.kind == Kind::kGather;
  auto address = [](const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); };
  if (block && reads_here(call, communicator)) {
    CUresult result = cropdl_software_gpu_check(address(call.send), spreads ? all : block, 0);
    if (result != CUDA_SUCCESS) return result;
  }
  if (block && writes_here(call, communicator))
    return cropdl_software_gpu_check(address(call.receive), collects ? all : block, 1);
  return CUDA_SUCCESS;
}

CUresult run_work(void* data) {
  auto* work = static_cast<Work*>(data);
  ncclComm* communicator = work->communicator;
  {
    std::lock_guard lock(live_mutex());
    if (!live().count(communicator)) {
      say("software GPU: NCCL: a graph launches a collective of a communicator that has been destroyed");
      return CUDA_ERROR_INVALID_HANDLE;
    }
    communicator->users++;
  }
  struct Leave {
    ~Leave() { (*users)--; }
    std::atomic<int>* users;
  } leave{&communicator->users};
  std::lock_guard running(communicator->running);
  if (communicator->aborted.load()) return CUDA_SUCCESS;
  for (Call& call : work->calls) {
    if (CUresult result = check_buffers(call, *communicator)) {
      say(formatted("software GPU: NCCL: {} is given memory that the device may not access",
                    name_of(call.kind)));
      return result;
    }
    if (!call.device_scalar) continue;
    size_t size = size_of(call.datatype);
    if (CUresult result =
            cropdl_software_gpu_check(reinterpret_cast<CUdeviceptr>(call.device_scalar), size, 0))
      return result;
    std::copy_n(static_cast<const unsigned char*>(call.device_scalar), size, call.reduction.scalar);
  }
  std::string wrong;
  run(work->calls, *communicator->segment, {&communicator->aborted, &communicator->asynchronous_error},
      &wrong);
  if (!wrong.empty()) {
    say("software GPU: NCCL: " + wrong);
    communicator->asynchronous_error.store(ncclInvalidUsage);
    return CUDA_ERROR_LAUNCH_FAILED;
  }
  return CUDA_SUCCESS;
}

void release_work(void* data) { delete static_cast<Work*>(data); }

}  // namespace

ncclResult_t failed(ncclResult_t result, std::string why) {
  error_of_this_thread() = std::move(why);
  return result;
}

const char* last_error() { return error_of_this_thread().c_str(); }

ncclResult_t check(ncclComm* communicator) {
  std::lock_guard lock(live_mutex());
  if (live().count(communicator)) return ncclSuccess;
  return failed(ncclInvalidArgument, communicator ? "the communicator is not one, or has been destroyed"
                                                  : "the communicator is null");
}

ncclResult_t check_ready(ncclComm* communicator) {
  if (ncclResult_t result = check(communicator)) return result;
  if (communicator->aborted.load()) return failed(ncclInvalidArgument, "the communicator has been aborted");
  if (communicator->finalized) return failed(ncclInvalidArgument, "the communicator has been finalized");
  int error = communicator->asynchronous_error.load();
  if (error == ncclInProgress)
    return failed(
        ncclInvalidArgument,
        "the communicator is still in the making: ask ncclCommGetAsyncError until it is not ncclInProgress");
  if (error)
    return failed(static_cast<ncclResult_t>(error),
                  "the communicator has an error: see ncclCommGetAsyncError");
  return ncclSuccess;
}

std::string token_of(const ncclUniqueId& id) { return std::string(id.internal, strnlen(id.internal, 32)); }

ncclResult_t begin(const Making& making) {
  CUcontext context = making.context  ? making.context
                      : making.parent ? making.parent->context
                                      : context_of_this_thread();
  if (!context) return failed(ncclUnhandledCudaError, "there is no device");
  auto* communicator = new ncclComm;
  communicator->context = context;
  communicator->rank = making.rank;
  communicator->ranks = making.ranks;
  communicator->token = making.token;
  communicator->blocking = making.blocking;
  communicator->asynchronous_error.store(ncclInProgress);
  Current current(context);
  CUdevice device = 0;
  cuCtxGetDevice(&device);
  communicator->device = device;
  if (cuEventCreate(&communicator->last_launch, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
    delete communicator;
    return failed(ncclUnhandledCudaError, "the device's context is broken");
  }
  *making.into = communicator;
  std::lock_guard lock(live_mutex());
  live().insert(communicator);
  return ncclSuccess;
}

ncclResult_t complete(const Making& making) {
  ncclComm* communicator = *making.into;
  Status trouble;
  if (making.is_split) {
    // All ranks of the parent say their color and key; who has the same color is together, ordered by key and
    // old rank.
    struct Said {
      int color, key;
    } own{making.color, making.key};
    std::vector<Said> all(static_cast<size_t>(making.parent->ranks));
    trouble = making.parent->segment->exchange(&own, sizeof own, all.data(), communicator->aborted);
    if (trouble && making.color >= 0) {
      std::vector<std::pair<int, int>> together;
      for (int other = 0; other < making.parent->ranks; other++)
        if (all[static_cast<size_t>(other)].color == making.color)
          together.emplace_back(all[static_cast<size_t>(other)].key, other);
      std::sort(together.begin(), together.end());
      communicator->ranks = static_cast<int>(together.size());
      for (int place = 0; place < communicator->ranks; place++)
        if (together[static_cast<size_t>(place)].second == making.parent->rank) communicator->rank = place;
      communicator->token = formatted("{}.{}-{}", making.parent->token, making.number, making.color);
    }
  }
  bool none = making.is_split && making.color < 0;
  if (trouble && !none) {
    auto segment = Segment::join(communicator->token, communicator->rank, communicator->ranks,
                                 communicator->device, communicator->aborted);
    if (segment)
      communicator->segment = std::move(*segment);
    else
      trouble = segment.error();
  }
  if (trouble && !none) {
    communicator->asynchronous_error.store(ncclSuccess);
    return ncclSuccess;
  }
  ncclResult_t result = none && trouble ? ncclSuccess : failed(ncclRemoteError, trouble.error().message);
  if (communicator->blocking || none) {
    *making.into = nullptr;
    {
      std::lock_guard lock(live_mutex());
      live().erase(communicator);
    }
    Current current(communicator->context);
    cuEventDestroy(communicator->last_launch);
    delete communicator;
  } else {
    communicator->asynchronous_error.store(result);
  }
  return result;
}

ncclResult_t finalize(ncclComm* communicator) {
  if (communicator->finalized)
    return failed(ncclInvalidArgument, "the communicator has been finalized before");
  communicator->finalized = true;
  if (!communicator->launched) return ncclSuccess;
  Current current(communicator->context);
  return cuEventSynchronize(communicator->last_launch) == CUDA_SUCCESS
             ? ncclSuccess
             : failed(ncclUnhandledCudaError, "the device's context is broken");
}

ncclResult_t destroy(ncclComm* communicator, bool abort) {
  if (abort) {
    communicator->aborted.store(true);
    if (communicator->segment) communicator->segment->ring(communicator->rank);
  } else if (!communicator->finalized && communicator->segment) {
    finalize(communicator);
  }
  if (communicator->making.joinable()) communicator->making.join();
  {
    std::lock_guard lock(live_mutex());
    live().erase(communicator);
  }
  while (communicator->users.load())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // they see that it is aborted
  if (communicator->segment) communicator->segment->leave(abort ? kAborted : kFinished);
  Current current(communicator->context);
  cuEventDestroy(communicator->last_launch);
  delete communicator;
  return ncclSuccess;
}

ncclResult_t launch(ncclComm* communicator, CUstream stream, std::vector<Call> calls) {
  Current current(communicator->context);
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result = cuStreamIsCapturing(stream, &capture);
  bool captured = capture != CU_STREAM_CAPTURE_STATUS_NONE;
  if (result == CUDA_SUCCESS && communicator->launched && stream != communicator->last_stream && !captured)
    result = cuStreamWaitEvent(stream, communicator->last_launch, 0);
  if (result == CUDA_SUCCESS) {
    auto* work = new Work{communicator, std::move(calls)};
    result =
        cropdl_software_gpu_enqueue(stream, name_of(work->calls.front().kind), run_work, release_work, work);
  }
  if (result == CUDA_SUCCESS && !captured) {
    result = cuEventRecord(communicator->last_launch, stream);
    communicator->launched = true;
    communicator->last_stream = stream;
  }
  if (result == CUDA_SUCCESS) return ncclSuccess;
  const char* text = nullptr;
  cuGetErrorString(result, &text);
  return failed(ncclUnhandledCudaError,
                formatted("the stream takes no work: {}", text ? text : "unknown error"));
}

}  // namespace cropdl::nccl
