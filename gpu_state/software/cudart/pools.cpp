// Memory pools for stream-ordered allocation. Source: CUDA Runtime API 13.0, "Stream Ordered Memory
// Allocator".
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

CUmemLocation* as_location(cudaMemLocation* location) {
  static_assert(int{cudaMemLocationTypeDevice} == int{CU_MEM_LOCATION_TYPE_DEVICE} &&
                int{cudaMemLocationTypeHostNumaCurrent} == int{CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT});
  return same<CUmemLocation>(location);
}

CUmemPool_attribute as_attribute(cudaMemPoolAttr attribute) {
  static_assert(int{cudaMemPoolAttrReleaseThreshold} == int{CU_MEMPOOL_ATTR_RELEASE_THRESHOLD} &&
                int{cudaMemPoolAttrUsedMemHigh} == int{CU_MEMPOOL_ATTR_USED_MEM_HIGH});
  return static_cast<CUmemPool_attribute>(attribute);
}

}  // namespace

extern "C" {

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return run([&] { return cuDeviceGetDefaultMemPool(pool, device); });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return run([&] { return cuDeviceSetMemPool(device, pool); });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return run([&] { return cuDeviceGetMemPool(pool, device); });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return run([&] { return cuMemPoolCreate(pool, same<const CUmemPoolProps>(properties)); });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return run([&] { return cuMemPoolDestroy(pool); });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  return run([&] { return cuMemPoolTrimTo(pool, keep); });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return run([&] { return cuMemPoolSetAttribute(pool, as_attribute(attribute), value); });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return run([&] { return cuMemPoolGetAttribute(pool, as_attribute(attribute), value); });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access, size_t count) {
  return run([&] { return cuMemPoolSetAccess(pool, same<const CUmemAccessDesc>(access), count); });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* location) {
  return run([&] {
    return cuMemPoolGetAccess(reinterpret_cast<CUmemAccess_flags*>(flags), pool, as_location(location));
  });
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                     cudaMemAllocationType type) {
  return run([&] {
    return cuMemGetDefaultMemPool(pool, as_location(location), static_cast<CUmemAllocationType>(type));
  });
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location, cudaMemAllocationType type) {
  return run(
      [&] { return cuMemGetMemPool(pool, as_location(location), static_cast<CUmemAllocationType>(type)); });
}

cudaError_t cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType type, cudaMemPool_t pool) {
  return run(
      [&] { return cuMemSetMemPool(as_location(location), static_cast<CUmemAllocationType>(type), pool); });
}

cudaError_t cudaMemPoolExportToShareableHandle(void* handle, cudaMemPool_t pool,
                                               cudaMemAllocationHandleType type, unsigned flags) {
  return run([&] {
    return cuMemPoolExportToShareableHandle(handle, pool, static_cast<CUmemAllocationHandleType>(type),
                                            flags);
  });
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool, void* handle,
                                                 cudaMemAllocationHandleType type, unsigned flags) {
  return run([&] {
    return cuMemPoolImportFromShareableHandle(pool, handle, static_cast<CUmemAllocationHandleType>(type),
                                              flags);
  });
}

cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* data, void* pointer) {
  return run([&] { return cuMemPoolExportPointer(same<CUmemPoolPtrExportData>(data), as_device(pointer)); });
}

cudaError_t cudaMemPoolImportPointer(void** pointer, cudaMemPool_t pool, cudaMemPoolPtrExportData* data) {
  return run([&] {
    if (!pointer) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr address = 0;
    const CUresult result = cuMemPoolImportPointer(&address, pool, same<CUmemPoolPtrExportData>(data));
    if (result == CUDA_SUCCESS) *pointer = as_pointer(address);
    return result;
  });
}
}
