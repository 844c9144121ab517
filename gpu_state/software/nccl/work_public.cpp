// See work.h: the calls run on a thread of the communicator (proxy.h), on copies in host memory.
#include "base/format.h"
#include "gpu_state/software/nccl/buffers.h"
#include "gpu_state/software/nccl/proxy.h"
#include "gpu_state/software/nccl/rounds.h"
#include "gpu_state/software/nccl/work.h"

namespace cropdl::nccl {

namespace {

// A copy to or from other memory would block the caller, or fail only after other ranks have gone on.
ncclResult_t check_buffer(const Call& call, const void* buffer) {
  CUmemorytype type;
  if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(buffer)) ==
      CUDA_SUCCESS)
    return ncclSuccess;
  return failed(ncclInvalidArgument,
                formatted("{} is given memory that is neither a device's nor pinned", name_of(call.kind)));
}

ncclResult_t check_buffers(const Call& call, const ncclComm& communicator) {
  const Blocks here = blocks_of(call, communicator.rank, communicator.ranks);
  ncclResult_t result = ncclSuccess;
  if (call.count && here.read) result = check_buffer(call, call.send);
  if (!result && call.count && here.written) result = check_buffer(call, call.receive);
  if (!result && call.device_scalar) result = check_buffer(call, call.device_scalar);
  return result;
}

}  // namespace

const char* const kBuild = "CropDL's, over any driver";

ncclResult_t prepare(ncclComm* communicator) {
  int has = 0;
  if (cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, communicator->device) !=
          CUDA_SUCCESS ||
      !has)
    return refused(
        formatted("device {} has no stream memory operations (cuStreamWaitValue64), by which it would wait "
                  "for the other ranks",
                  communicator->device));
  communicator->proxy = Proxy::make(communicator->context);
  return communicator->proxy ? ncclSuccess : ncclSystemError;
}

ncclResult_t give(CUstream stream, const std::vector<Call>& calls, Launch* launch) {
  const Communicator communicator = launch->communicator;
  for (const Call& call : calls)
    if (ncclResult_t result = check_buffers(call, *communicator)) return result;
  for (Round& round : rounds_of(calls, communicator->rank, communicator->ranks))
    launch->steps.push_back([=, round = std::move(round)] {
      return taken(communicator->proxy->add(communicator, stream, round));
    });
  launch->at_end = [=] {
    return taken(communicator->proxy->end_launch(stream));
  };  // what was added is to pass
  return ncclSuccess;
}

ncclResult_t give_captured(const Communicator&, CUstream, cuuint64_t, const std::vector<Call>&) {
  return refused("a call cannot be captured into a CUDA graph; launch it without one");
}

}  // namespace cropdl::nccl
