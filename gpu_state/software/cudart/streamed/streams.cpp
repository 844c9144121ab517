// Work in streams, and queries of them. Compiled twice (launches.cpp).
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

CUstreamAttrID as_attribute(cudaStreamAttrID attribute) { return static_cast<CUstreamAttrID>(attribute); }

}  // namespace

extern "C" {

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return run([&] { return cuStreamGetPriority(stream, priority); });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return run([&] { return cuStreamGetFlags(stream, flags); });
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return run([&] { return cuStreamGetId(stream, id); });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return run([&] { return cuStreamGetDevice(stream, device); });
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t destination, cudaStream_t source) {
  return run([&] { return cuStreamCopyAttributes(destination, source); });
}

cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID attribute,
                                   cudaStreamAttrValue* value) {
  return run(
      [&] { return cuStreamGetAttribute(stream, as_attribute(attribute), same<CUstreamAttrValue>(value)); });
}

cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID attribute,
                                   const cudaStreamAttrValue* value) {
  return run([&] {
    return cuStreamSetAttribute(stream, as_attribute(attribute), same<const CUstreamAttrValue>(value));
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return run([&] { return cuStreamWaitEvent(stream, event, flags); });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned flags) {
  return run([&] {
    if (!callback) return CUDA_ERROR_INVALID_VALUE;
    return cuStreamAddCallback(stream, reinterpret_cast<CUstreamCallback>(callback), data, flags);
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return run([&] { return cuStreamSynchronize(stream); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return run([&] { return cuStreamQuery(stream); });
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* pointer, size_t length, unsigned flags) {
  return run([&] { return cuStreamAttachMemAsync(stream, as_device(pointer), length, flags); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return run([&] { return cuEventRecord(event, stream); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return run([&] { return cuEventRecordWithFlags(event, stream, flags); });
}

cudaError_t cudaMallocAsync(void** pointer, size_t size, cudaStream_t stream) {
  return run([&] {
    if (!pointer) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr address = 0;
    const CUresult result = cuMemAllocAsync(&address, size, stream);
    if (result == CUDA_SUCCESS) *pointer = as_pointer(address);
    return result;
  });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
  return run([&] {
    if (!pointer) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr address = 0;
    const CUresult result = cuMemAllocFromPoolAsync(&address, size, pool, stream);
    if (result == CUDA_SUCCESS) *pointer = as_pointer(address);
    return result;
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return run([&] { return cuMemFreeAsync(as_device(pointer), stream); });
}
}
