// Other stream functions: attributes, managed memory, callbacks. Source: CUDA Driver API 13.0, "Stream
// Management".
#include <cuda.h>

#include <algorithm>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/streams.h"
#include "gpu_state/software/device/work.h"
#include "gpu_state/software/driver/per_thread.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;
using driver::or_own;

namespace {

CUresult attribute_not_built(CUstreamAttrID attribute) {
  settings::say_not_built("the stream attribute " + std::to_string(static_cast<int>(attribute)));
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult find_stream(CUstream handle, std::shared_ptr<CUstream_st>* stream) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  return device::resolve(handle, stream);
}

}  // namespace

extern "C" {

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = find_stream(handle, &stream); error != CUDA_SUCCESS) return error;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(device::capture_mutex());
  *value = {};
  switch (attribute) {
    case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      *value = stream->access_window;
      break;
    case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      *value = stream->synchronization_policy;
      break;
    case CU_STREAM_ATTRIBUTE_PRIORITY:
      value->priority = stream->priority;
      break;
    default:
      return attribute_not_built(attribute);
  }
  return CUDA_SUCCESS;
}
CUresult cuStreamGetAttribute_ptsz(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  return cuStreamGetAttribute(or_own(stream), attribute, value);
}

// Cache window and waiting policy are hints: stored and returned.
CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue* value) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = find_stream(handle, &stream); error != CUDA_SUCCESS) return error;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(device::capture_mutex());
  switch (attribute) {
    case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      stream->access_window = *value;
      break;
    case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      if (value->syncPolicy < CU_SYNC_POLICY_AUTO || value->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
      stream->synchronization_policy = *value;
      break;
    case CU_STREAM_ATTRIBUTE_PRIORITY:
      stream->priority = std::clamp(value->priority, device::kGreatestPriority, device::kLeastPriority);
      break;
    default:
      return attribute_not_built(attribute);
  }
  return CUDA_SUCCESS;
}
CUresult cuStreamSetAttribute_ptsz(CUstream stream, CUstreamAttrID attribute,
                                   const CUstreamAttrValue* value) {
  return cuStreamSetAttribute(or_own(stream), attribute, value);
}

CUresult cuStreamCopyAttributes(CUstream to_handle, CUstream from_handle) {
  std::shared_ptr<CUstream_st> to, from;
  if (CUresult error = find_stream(to_handle, &to); error != CUDA_SUCCESS) return error;
  if (CUresult error = find_stream(from_handle, &from); error != CUDA_SUCCESS) return error;
  if (to->context != from->context) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(device::capture_mutex());
  to->access_window = from->access_window;
  to->synchronization_policy = from->synchronization_policy;
  to->priority = from->priority.load();
  return CUDA_SUCCESS;
}
CUresult cuStreamCopyAttributes_ptsz(CUstream to, CUstream from) {
  return cuStreamCopyAttributes(or_own(to), or_own(from));
}

// All devices here have concurrent managed access, so attaching has no visible effect; it is checked, and
// takes its place in stream order.
CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t length, unsigned flags) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = find_stream(handle, &stream); error != CUDA_SUCCESS) return error;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
    return CUDA_ERROR_INVALID_VALUE;
  if (flags == CU_MEM_ATTACH_SINGLE && stream->is_legacy) return CUDA_ERROR_INVALID_VALUE;
  unsigned is_managed = 0;
  if (cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) != CUDA_SUCCESS ||
      !is_managed)
    return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr begin = 0;
  size_t size = 0;
  if (CUresult error = cuMemGetAddressRange_v2(&begin, &size, address); error != CUDA_SUCCESS) return error;
  if (begin != address || (length != 0 && length != size)) return CUDA_ERROR_INVALID_VALUE;
  return device::submit(handle, device::EmptyWork{});
}
CUresult cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr address, size_t length, unsigned flags) {
  return cuStreamAttachMemAsync(or_own(stream), address, length, flags);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned flags) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (!callback || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return device::submit(stream, device::HostWork{nullptr, data, callback, nullptr});
}
CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void* data, unsigned flags) {
  return cuStreamAddCallback(or_own(stream), callback, data, flags);
}

}  // extern "C"
