// cuStreamWaitValue*, cuStreamWriteValue*, cuStreamBatchMemOp. Source: CUDA Driver API 13.0, "Stream Memory
// Operations".
#include <cuda.h>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/streams.h"
#include "gpu_state/software/device/values.h"
#include "gpu_state/software/driver/per_thread.h"

using namespace cropdl;
using driver::or_own;

namespace {

CUresult wait_value(CUstream stream, CUstreamBatchMemOpType operation, CUdeviceptr address, uint64_t value,
                    unsigned flags) {
  CUstreamBatchMemOpParams one{};
  one.waitValue.operation = operation;
  one.waitValue.address = address;
  one.waitValue.value64 = value;
  one.waitValue.flags = flags;
  return cuStreamBatchMemOp_v2(stream, 1, &one, 0);
}

CUresult write_value(CUstream stream, CUstreamBatchMemOpType operation, CUdeviceptr address, uint64_t value,
                     unsigned flags) {
  CUstreamBatchMemOpParams one{};
  one.writeValue.operation = operation;
  one.writeValue.address = address;
  one.writeValue.value64 = value;
  one.writeValue.flags = flags;
  return cuStreamBatchMemOp_v2(stream, 1, &one, 0);
}

}  // namespace

extern "C" {

CUresult cuStreamBatchMemOp_v2(CUstream handle, unsigned count, CUstreamBatchMemOpParams* parameters,
                               unsigned flags) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = device::resolve(handle, &stream); error != CUDA_SUCCESS) return error;
  device::ValueWork work;
  if (CUresult error = device::values_from(stream->context, parameters, count, &work); error != CUDA_SUCCESS)
    return error;
  return device::submit(handle, std::move(work));
}
CUresult cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned count, CUstreamBatchMemOpParams* parameters,
                                    unsigned flags) {
  return cuStreamBatchMemOp_v2(or_own(stream), count, parameters, flags);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return wait_value(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}
CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return cuStreamWaitValue32_v2(or_own(stream), address, value, flags);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return wait_value(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}
CUresult cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return cuStreamWaitValue64_v2(or_own(stream), address, value, flags);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return write_value(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}
CUresult cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                      unsigned flags) {
  return cuStreamWriteValue32_v2(or_own(stream), address, value, flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return write_value(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}
CUresult cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                      unsigned flags) {
  return cuStreamWriteValue64_v2(or_own(stream), address, value, flags);
}

}  // extern "C"
