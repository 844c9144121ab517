// cuStream*: creation, queries, waiting. Source: CUDA Driver API 13.0, "Stream Management".
#include <cuda.h>

#include "gpu_state/software/device/callbacks.h"
#include "gpu_state/software/device/capture.h"
#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/streams.h"
#include "gpu_state/software/device/streams_run.h"
#include "gpu_state/software/driver/per_thread.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;
using driver::or_own;

namespace {

// Start of functions that only query a stream.
CUresult find_stream(CUstream handle, const void* answer, std::shared_ptr<CUstream_st>* stream) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (!answer) return CUDA_ERROR_INVALID_VALUE;
  return device::resolve(handle, stream);
}

}  // namespace

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (!stream) return CUDA_ERROR_INVALID_VALUE;
  return device::create_stream(context, flags, priority, stream);
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, device::kLeastPriority);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  return device::destroy_stream(stream);
}

CUresult cuStreamSynchronize(CUstream stream) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  return device::wait_for(stream);
}
CUresult cuStreamSynchronize_ptsz(CUstream stream) { return cuStreamSynchronize(or_own(stream)); }

CUresult cuStreamQuery(CUstream stream) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  return device::query_stream(stream);
}
CUresult cuStreamQuery_ptsz(CUstream stream) { return cuStreamQuery(or_own(stream)); }

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) return CUDA_ERROR_INVALID_VALUE;
  return device::submit(stream, device::WaitWork{event, flags == CU_EVENT_WAIT_EXTERNAL});
}
CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags) {
  return cuStreamWaitEvent(or_own(stream), event, flags);
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = find_stream(handle, priority, &stream); error != CUDA_SUCCESS) return error;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetPriority_ptsz(CUstream stream, int* priority) {
  return cuStreamGetPriority(or_own(stream), priority);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = find_stream(handle, flags, &stream); error != CUDA_SUCCESS) return error;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetFlags_ptsz(CUstream stream, unsigned* flags) {
  return cuStreamGetFlags(or_own(stream), flags);
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = find_stream(handle, id, &stream); error != CUDA_SUCCESS) return error;
  *id = stream->id;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetId_ptsz(CUstream stream, unsigned long long* id) {
  return cuStreamGetId(or_own(stream), id);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = find_stream(handle, context, &stream); error != CUDA_SUCCESS) return error;
  *context = stream->context;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCtx_ptsz(CUstream stream, CUcontext* context) {
  return cuStreamGetCtx(or_own(stream), context);
}

// Green contexts are not supported.
CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = find_stream(handle, context, &stream); error != CUDA_SUCCESS) return error;
  if (!green) return CUDA_ERROR_INVALID_VALUE;
  *context = stream->context;
  *green = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext* context, CUgreenCtx* green) {
  return cuStreamGetCtx_v2(or_own(stream), context, green);
}

CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx* green) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = find_stream(handle, green, &stream); error != CUDA_SUCCESS) return error;
  *green = nullptr;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = find_stream(handle, device, &stream); error != CUDA_SUCCESS) return error;
  *device = stream->context->device->ordinal;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetDevice_ptsz(CUstream stream, CUdevice* device) {
  return cuStreamGetDevice(or_own(stream), device);
}

}  // extern "C"
