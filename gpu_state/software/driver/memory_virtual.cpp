// cuMemAddressReserve, cuMemCreate, cuMemMap, cuMemSetAccess and related functions. Source: CUDA Driver API
// 13.0, "Virtual Memory Management".
#include <cuda.h>

#include "gpu_state/software/device/area.h"
#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/memory.h"
#include "gpu_state/software/device/not_built.h"
#include "gpu_state/software/device/virtual_memory.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;

namespace {

// Supported properties: memory of a device, for this process only.
CUresult check_properties(const CUmemAllocationProp* properties) {
  if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  switch (properties->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return device::not_built("cuMemCreate of the host's memory");
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  device::Device* device = device::find(properties->location.id);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  device->memory();  // made on first use
  if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return device::not_built("cuMemCreate of memory for other processes");
  if (properties->allocFlags.gpuDirectRDMACapable) return device::not_built("cuMemCreate for GPUDirect RDMA");
  if (properties->allocFlags.usage) return device::not_built("cuMemCreate of a tile pool");
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags option) {
  if (CUresult error = device::initialized()) return error;
  if (!granularity || !properties ||
      (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = check_properties(properties)) return error;
  *granularity = device::kPage;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t size, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  if (CUresult error = device::initialized()) return error;
  if (!address || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return device::reserve_addresses(size, alignment, hint, address);
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  if (CUresult error = device::initialized()) return error;
  return device::free_addresses(address, size);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  if (CUresult error = device::initialized()) return error;
  if (!handle || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = check_properties(properties)) return error;
  if (const int injected = settings::injected("malloc"))
    return injected < 0 ? CUDA_ERROR_OUT_OF_MEMORY : static_cast<CUresult>(injected);
  CUmemAllocationProp kept = *properties;
  // a request; the program can query the outcome
  kept.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_NONE;
  return device::create_physical(size, kept, handle);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (CUresult error = device::initialized()) return error;
  return device::release_physical(handle);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  if (CUresult error = device::initialized()) return error;
  return properties ? device::properties_of(handle, properties) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  if (CUresult error = device::initialized()) return error;
  return handle ? device::retain_mapped(reinterpret_cast<uint64_t>(address), handle)
                : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  if (CUresult error = device::initialized()) return error;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return device::map_physical(address, size, offset, handle);
}

// Does not wait: remaining users of the memory get errors.
CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  if (CUresult error = device::initialized()) return error;
  return device::unmap_physical(address, size);
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* descriptions, size_t count) {
  if (CUresult error = device::initialized()) return error;
  if (!descriptions || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const CUmemLocation& location = descriptions[i].location;
    if (location.type == CU_MEM_LOCATION_TYPE_HOST || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
      return device::not_built("cuMemSetAccess for the host");
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    device::Device* device = device::find(location.id);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    device->memory();  // made on first use
  }
  for (size_t i = 0; i < count; ++i)
    if (CUresult error =
            device::set_mapped_access(address, size, descriptions[i].location.id, descriptions[i].flags))
      return error;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  if (CUresult error = device::initialized()) return error;
  if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (!device::find(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  unsigned given = 0;
  device::find(location->id)->memory();
  if (CUresult error = device::get_mapped_access(address, location->id, &given)) return error;
  *flags = given;
  return CUDA_SUCCESS;
}

}  // extern "C"
