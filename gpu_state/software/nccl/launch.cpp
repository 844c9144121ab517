#include "gpu_state/software/nccl/launch.h"

#include "gpu_state/software/nccl/current.h"

namespace cropdl::nccl {

namespace {

// Each launch waits for the previous one, unless that was in the same stream. Streams are compared by their
// ids: handles are reused, and CU_STREAM_PER_THREAD is a different stream in each thread. Graphs may have
// been launched in between.
ncclResult_t begin_eagerly(CUstream stream, const std::vector<Call>& calls, Launch* launch) {
  const Communicator communicator = launch->communicator;
  unsigned long long number = 0;
  if (CUresult result = cuStreamGetId(stream, &number)) return taken(result);
  if (communicator->last_capture || (communicator->launched && communicator->last_stream != number))
    if (CUresult result = cuStreamWaitEvent(stream, communicator->last_launch, 0)) return taken(result);
  if (ncclResult_t result = give(stream, calls, launch)) return result;
  launch->steps.push_back([=] {
    communicator->last_stream = number;
    communicator->launched = true;
    return taken(cuEventRecord(communicator->last_launch, stream));
  });
  return ncclSuccess;
}

}  // namespace

ncclResult_t begin_launch(CUstream stream, std::vector<Call> calls, Launch* launch) {
  const Communicator communicator = launch->communicator;
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
  if (ncclResult_t trouble = taken(result)) return trouble;
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) return begin_eagerly(stream, calls, launch);
  launch->steps.push_back([communicator, stream, capture, calls = std::move(calls)] {
    const ncclResult_t answer = give_captured(communicator, stream, capture, calls);
    if (answer == ncclSuccess) communicator->launched = true;
    return answer;
  });
  return ncclSuccess;
}

ncclResult_t finish_launches(std::vector<Launch>* launches) {
  ncclResult_t result = ncclSuccess;
  for (size_t step = 0, left = 1; left != 0; step++) {
    left = 0;
    for (Launch& one : *launches) {
      if (step >= one.steps.size()) continue;
      const Current current(one.communicator->context);
      const ncclResult_t answer = one.steps[step]();
      if (answer != ncclSuccess) one.steps.clear();
      if (result == ncclSuccess) result = answer;
      left += step + 1 < one.steps.size() ? 1 : 0;
    }
  }
  for (Launch& one : *launches) {
    if (!one.at_end) continue;
    const Current current(one.communicator->context);
    if (const ncclResult_t answer = one.at_end(); result == ncclSuccess) result = answer;
  }
  return result;
}

}  // namespace cropdl::nccl
