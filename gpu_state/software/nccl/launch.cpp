#include "gpu_state/software/nccl/launch.h"

#include <algorithm>

#include "base/format.h"
#include "base/say.h"
#include "gpu_state/software/device/library_work.h"

namespace cropdl::nccl {

namespace {

struct Work {
  Work(const Communicator& communicator, std::vector<Call> calls, bool is_captured)
      : communicator(communicator), calls(std::move(calls)), is_captured(is_captured) {
    count(1);
  }
  ~Work() { count(-1); }
  Work(const Work&) = delete;
  void count(int change) {
    if (!is_captured) return;
    std::lock_guard lock(communicator->counting);
    communicator->held_by_graphs += change;
    communicator->given_back.notify_all();
  }
  const Communicator communicator;
  std::vector<Call> calls;
  const bool is_captured;
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
  ncclComm& communicator = *work->communicator;
  std::lock_guard running(communicator.running);
  if (communicator.aborted.load()) return CUDA_SUCCESS;  // the program continues without it
  for (Call& call : work->calls) {
    if (CUresult result = check_buffers(call, communicator)) {
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
  run(work->calls, *communicator.segment, {&communicator.aborted, &communicator.error}, &wrong);
  if (wrong.empty()) return CUDA_SUCCESS;
  say("software GPU: NCCL: " + wrong);
  communicator.error.store(ncclInvalidUsage);
  return CUDA_ERROR_LAUNCH_FAILED;
}

void release_work(void* data) { delete static_cast<Work*>(data); }

CUresult give(const Communicator& communicator, CUstream stream, std::vector<Call> calls, bool is_captured) {
  auto work = std::make_unique<Work>(communicator, std::move(calls), is_captured);
  CUresult result = cropdl_software_gpu_enqueue(stream, name_of(work->calls.front().kind), run_work,
                                                release_work, work.get());
  if (result == CUDA_SUCCESS) work.release();
  return result;
}

// Each launch waits for the previous one, unless that was in the same stream. Streams are compared by their
// ids: handles are reused, and CU_STREAM_PER_THREAD is a different stream in each thread. Graphs may have
// been launched in between.
CUresult launch_eagerly(const Communicator& communicator, CUstream stream, std::vector<Call> calls) {
  unsigned long long number = 0;
  if (CUresult result = cuStreamGetId(stream, &number)) return result;
  if (communicator->last_capture || (communicator->launched && communicator->last_stream != number))
    if (CUresult result = cuStreamWaitEvent(stream, communicator->last_launch, 0)) return result;
  if (CUresult result = give(communicator, stream, std::move(calls), false)) return result;
  communicator->last_stream = number;
  return cuEventRecord(communicator->last_launch, stream);
}

// In a capture, the previous launch may be a node of the same capture. Otherwise the graph, whenever it is
// launched, waits for earlier launches, and later launches wait for the graph, by event nodes, as in NVIDIA's
// NCCL. (The graph's launch decides which launches: device/graphs_run.cpp.)
CUresult launch_captured(const Communicator& communicator, CUstream stream, cuuint64_t capture,
                         std::vector<Call> calls) {
  std::vector<CUgraphNode>& last = communicator->last_captured;
  CUresult result = capture == communicator->last_capture
                        ? cuStreamUpdateCaptureDependencies(stream, last.data(), nullptr, last.size(),
                                                            CU_STREAM_ADD_CAPTURE_DEPENDENCIES)
                        : cuStreamWaitEvent(stream, communicator->last_launch, CU_EVENT_WAIT_EXTERNAL);
  if (result == CUDA_SUCCESS) result = give(communicator, stream, std::move(calls), true);
  if (result == CUDA_SUCCESS)
    result = cuEventRecordWithFlags(communicator->last_launch, stream, CU_EVENT_RECORD_EXTERNAL);
  if (result != CUDA_SUCCESS) return result;
  CUstreamCaptureStatus status;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 0;
  result = cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count);
  if (result != CUDA_SUCCESS) return result;
  last.assign(nodes, nodes + count);
  communicator->last_capture = capture;
  return CUDA_SUCCESS;
}

}  // namespace

ncclResult_t launch(const Communicator& communicator, CUstream stream, std::vector<Call> calls) {
  if (!find(communicator.get()))
    return failed(ncclInvalidArgument, "the communicator has been destroyed since the call in the group");
  CUcontext owner = nullptr;
  CUresult result = cuStreamGetCtx(stream, &owner);
  if (result == CUDA_SUCCESS && owner != communicator->context)
    return failed(ncclUnhandledCudaError, "the stream is one of another device than the communicator's");
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t capture = 0;
  if (result == CUDA_SUCCESS)
    result = cuStreamGetCaptureInfo(stream, &status, &capture, nullptr, nullptr, nullptr, nullptr);
  if (result == CUDA_SUCCESS)
    result = status == CU_STREAM_CAPTURE_STATUS_NONE
                 ? launch_eagerly(communicator, stream, std::move(calls))
                 : launch_captured(communicator, stream, capture, std::move(calls));
  if (result == CUDA_SUCCESS) {
    communicator->launched = true;
    return ncclSuccess;
  }
  const char* text = nullptr;
  cuGetErrorString(result, &text);
  return failed(ncclUnhandledCudaError,
                formatted("the stream takes no work: {}", text ? text : "unknown error"));
}

}  // namespace cropdl::nccl
