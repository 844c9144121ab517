// See work.h: the calls run on the stream's own thread, which accesses device memory as host memory.
#include <algorithm>

#include "base/format.h"
#include "base/say.h"
#include "gpu_state/software/device/library_work.h"
#include "gpu_state/software/nccl/buffers.h"
#include "gpu_state/software/nccl/work.h"

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

CUresult check_buffers(const Call& call, const ncclComm& communicator) {
  const size_t block = call.count * size_of(call.datatype);
  const Blocks here = blocks_of(call, communicator.rank, communicator.ranks);
  auto address = [](const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); };
  if (block && here.read)
    if (CUresult result = cropdl_software_gpu_check(address(call.send), here.read * block, 0)) return result;
  if (block && here.written) return cropdl_software_gpu_check(address(call.receive), here.written * block, 1);
  return CUDA_SUCCESS;
}

CUresult run_work(void* data) {
  auto* work = static_cast<Work*>(data);
  ncclComm& communicator = *work->communicator;
  std::lock_guard running(communicator.running);
  if (communicator.aborted.load()) return CUDA_SUCCESS;  // the program continues without it
  for (Call& call : work->calls) {
    if (CUresult result = check_buffers(call, communicator)) {
      say(formatted("software NCCL: {} is given memory that the device may not access", name_of(call.kind)));
      return result;
    }
    if (!call.device_scalar) continue;
    size_t size = size_of(call.datatype);
    if (CUresult result =
            cropdl_software_gpu_check(reinterpret_cast<CUdeviceptr>(call.device_scalar), size, 0))
      return result;
    std::copy_n(static_cast<const unsigned char*>(call.device_scalar), size, call.reduction.scalar);
  }
  return perform(&communicator, work->calls) ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

void release_work(void* data) { delete static_cast<Work*>(data); }

CUresult enqueue(const Communicator& communicator, CUstream stream, std::vector<Call> calls,
                 bool is_captured) {
  auto work = std::make_unique<Work>(communicator, std::move(calls), is_captured);
  CUresult result = cropdl_software_gpu_enqueue(stream, name_of(work->calls.front().kind), run_work,
                                                release_work, work.get());
  if (result == CUDA_SUCCESS) (void)work.release();  // the stream owns it
  return result;
}

}  // namespace

const char* const kBuild = "software device";

ncclResult_t prepare(ncclComm*) { return ncclSuccess; }

ncclResult_t give(CUstream stream, const std::vector<Call>& calls, Launch* launch) {
  launch->steps.push_back([communicator = launch->communicator, stream, calls] {
    return taken(enqueue(communicator, stream, calls, false));
  });
  return ncclSuccess;
}

// In a capture, the previous launch may be a node of the same capture. Otherwise the graph, whenever it is
// launched, waits for earlier launches, and later launches wait for the graph, by event nodes, as in NVIDIA's
// NCCL. (The graph's launch decides which launches: device/graphs_run.cpp.)
ncclResult_t give_captured(const Communicator& communicator, CUstream stream, cuuint64_t capture,
                           const std::vector<Call>& calls) {
  std::vector<CUgraphNode>& last = communicator->last_captured;
  CUresult result = capture == communicator->last_capture
                        ? cuStreamUpdateCaptureDependencies(stream, last.data(), nullptr, last.size(),
                                                            CU_STREAM_ADD_CAPTURE_DEPENDENCIES)
                        : cuStreamWaitEvent(stream, communicator->last_launch, CU_EVENT_WAIT_EXTERNAL);
  if (result == CUDA_SUCCESS) result = enqueue(communicator, stream, calls, true);
  if (result == CUDA_SUCCESS)
    result = cuEventRecordWithFlags(communicator->last_launch, stream, CU_EVENT_RECORD_EXTERNAL);
  if (result != CUDA_SUCCESS) return taken(result);
  CUstreamCaptureStatus status;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 0;
  result = cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count);
  if (result != CUDA_SUCCESS) return taken(result);
  last.assign(nodes, nodes + count);
  communicator->last_capture = capture;
  return ncclSuccess;
}

}  // namespace cropdl::nccl
