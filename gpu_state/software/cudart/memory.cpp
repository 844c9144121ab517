// Allocation of linear memory, and queries about addresses. Sources: CUDA Runtime API 13.0, "Memory
// Management", "Unified Addressing".
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

// The runtime's element size for pitched rows: suitable for any access of a thread.
constexpr unsigned kElement = 16;

template <class Allocate>
CUresult allocate(void** pointer, Allocate&& what) {
  if (!pointer) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr address = 0;
  const CUresult result = what(&address);
  if (result == CUDA_SUCCESS) *pointer = as_pointer(address);
  return result;
}

// A size of zero: returns a null pointer and success.
bool is_nothing(void** pointer, size_t size) {
  if (!pointer || size) return false;
  *pointer = nullptr;
  return true;
}

CUresult allocate_rows(void** pointer, size_t* pitch, size_t width, size_t rows) {
  if (!pitch) return CUDA_ERROR_INVALID_VALUE;
  *pitch = 0;
  if (is_nothing(pointer, width) || is_nothing(pointer, rows)) return nothing_to_do();
  return allocate(
      pointer, [&](CUdeviceptr* address) { return cuMemAllocPitch(address, pitch, width, rows, kElement); });
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t size) {
  return run([&] {
    if (is_nothing(pointer, size)) return nothing_to_do();
    return allocate(pointer, [&](CUdeviceptr* address) { return cuMemAlloc(address, size); });
  });
}

cudaError_t cudaMallocManaged(void** pointer, size_t size, unsigned flags) {
  return run([&] {
    return allocate(pointer, [&](CUdeviceptr* address) { return cuMemAllocManaged(address, size, flags); });
  });
}

cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  return run([&] { return allocate_rows(pointer, pitch, width, height); });
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* pitched, cudaExtent extent) {
  return run([&] {
    if (!pitched) return CUDA_ERROR_INVALID_VALUE;
    size_t rows = 0;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return CUDA_ERROR_OUT_OF_MEMORY;
    *pitched = {nullptr, 0, extent.width, extent.height};
    return allocate_rows(&pitched->ptr, &pitched->pitch, extent.width, rows);
  });
}

cudaError_t cudaFree(void* pointer) {
  return run([&] { return pointer ? cuMemFree(as_device(pointer)) : nothing_to_do(); });
}

cudaError_t cudaMallocHost(void** pointer, size_t size) {
  return run([&] {
    if (!pointer) return CUDA_ERROR_INVALID_VALUE;
    return is_nothing(pointer, size) ? nothing_to_do() : cuMemAllocHost(pointer, size);
  });
}

cudaError_t cudaHostAlloc(void** pointer, size_t size, unsigned flags) {
  static_assert(cudaHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE &&
                cudaHostAllocMapped == CU_MEMHOSTALLOC_DEVICEMAP &&
                cudaHostAllocWriteCombined == CU_MEMHOSTALLOC_WRITECOMBINED);
  return run([&] {
    if (!pointer || flags & ~(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined))
      return CUDA_ERROR_INVALID_VALUE;
    return is_nothing(pointer, size) ? nothing_to_do() : cuMemHostAlloc(pointer, size, flags);
  });
}

cudaError_t cudaFreeHost(void* pointer) {
  return run([&] { return pointer ? cuMemFreeHost(pointer) : nothing_to_do(); });
}

cudaError_t cudaHostRegister(void* pointer, size_t size, unsigned flags) {
  static_assert(cudaHostRegisterMapped == CU_MEMHOSTREGISTER_DEVICEMAP &&
                cudaHostRegisterReadOnly == CU_MEMHOSTREGISTER_READ_ONLY);
  return run([&] { return cuMemHostRegister(pointer, size, flags); });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return run([&] { return cuMemHostUnregister(pointer); });
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return run([&] {
    return allocate(device,
                    [&](CUdeviceptr* address) { return cuMemHostGetDevicePointer(address, host, flags); });
  });
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  return run([&] { return cuMemHostGetFlags(flags, host); });
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  return run([&] { return cuMemGetInfo(free_bytes, total); });
}

// Succeeds for memory unknown to the device, and reports that.
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return run([&] {
    if (!attributes) return CUDA_ERROR_INVALID_VALUE;
    CUmemorytype type{};
    int device = 0, is_managed = 0;
    CUdeviceptr on_device = 0;
    void* on_host = nullptr;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* values[] = {&type, &device, &is_managed, &on_device, &on_host};
    const CUresult result = cuPointerGetAttributes(5, which, values, as_device(pointer));
    *attributes = {};
    if (result != CUDA_SUCCESS || type == 0) {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = cudaInvalidDeviceId;
      attributes->hostPointer = const_cast<void*>(pointer);
      return result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : result;
    }
    attributes->type = is_managed                   ? cudaMemoryTypeManaged
                       : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                                    : cudaMemoryTypeDevice;
    attributes->device = device;
    attributes->devicePointer = as_pointer(on_device);
    attributes->hostPointer = on_host;
    return CUDA_SUCCESS;
  });
}
}
