// cuMemAllocAsync, cuMemFreeAsync and pools. Source: CUDA Driver API 13.0, "Stream Ordered Memory Allocator".
#include <cuda.h>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/graphs_memory.h"
#include "gpu_state/software/device/memory.h"
#include "gpu_state/software/device/not_built.h"
#include "gpu_state/software/device/pools.h"
#include "gpu_state/software/device/streams.h"
#include "gpu_state/software/driver/per_thread.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;

namespace {

CUresult injected(const char* kind, CUresult usual) {
  const int error = settings::injected(kind);
  return error < 0 ? usual : static_cast<CUresult>(error);
}

// Without a pool, uses the current pool of the stream's device.
CUresult allocate(CUdeviceptr* address, size_t size, CUmemoryPool pool, CUstream stream) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (!address || size == 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<CUstream_st> known;
  if (CUresult error = device::resolve(stream, &known)) return error;
  if (CUresult error = injected("malloc", CUDA_ERROR_OUT_OF_MEMORY)) return error;
  device::Device* device = known->context->device;
  device::AllocateWork work;
  work.size = size;
  device::Reservation reservation;            // for a graph: released if the node is refused
  device::Memory& memory = device->memory();  // made on first use
  if (uint64_t graph = device::captured_into(stream)) {
    if (CUresult error = device::reserve_allocation(graph, device->ordinal, size, &work, &reservation))
      return error;
  } else {
    work.pool = pool ? pool : device::current_pool(memory);
    if (CUresult error = device::allocate_pooled(work.pool, size, known->context, &work.address, &work.id))
      return error;
  }
  if (CUresult error = device::submit(stream, work)) {
    if (work.pool) (void)device::release_pooled(work.address);
    return error;
  }
  *address = work.address;
  return CUDA_SUCCESS;
}

CUresult free(CUdeviceptr address, CUstream stream) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (CUresult error = injected("free", CUDA_ERROR_INVALID_VALUE)) return error;
  return device::submit(stream, device::ReleaseWork{address, 0, {}});
}

// Only pools of devices are supported.
CUresult device_at(const CUmemLocation* location, CUmemAllocationType type, device::Device** device) {
  if (!location) return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_MEM_ALLOCATION_TYPE_MANAGED) return device::not_built("a pool of managed memory");
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      *device = device::find(location->id);
      return *device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return device::not_built("a pool of the host's memory");
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

extern "C" {

CROPDL_CALL_WITH_STREAM(cuMemAllocAsync, (CUdeviceptr * address, size_t size, CUstream stream),
                        allocate(address, size, nullptr, stream))
CROPDL_CALL_WITH_STREAM(cuMemAllocFromPoolAsync,
                        (CUdeviceptr * address, size_t size, CUmemoryPool pool, CUstream stream),
                        pool ? allocate(address, size, pool, stream) : CUDA_ERROR_INVALID_VALUE)
CROPDL_CALL_WITH_STREAM(cuMemFreeAsync, (CUdeviceptr address, CUstream stream), free(address, stream))

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  if (CUresult error = device::initialized()) return error;
  if (!pool || !properties) return CUDA_ERROR_INVALID_VALUE;
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return device::not_built("a pool for other processes");
  if (properties->usage) return device::not_built("a pool for hardware decompression");
  device::Device* device = nullptr;
  if (CUresult error = device_at(&properties->location, properties->allocType, &device)) return error;
  device->memory();  // made on first use
  return device::create_pool(*properties, pool);
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  if (CUresult error = device::initialized()) return error;
  return device::destroy_pool(pool);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  if (CUresult error = device::initialized()) return error;
  return device::trim_pool(pool, keep);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
  if (CUresult error = device::initialized()) return error;
  return value ? device::set_pool_attribute(pool, which, value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
  if (CUresult error = device::initialized()) return error;
  return value ? device::get_pool_attribute(pool, which, value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  if (CUresult error = device::initialized()) return error;
  if (!map && count) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    device::Device* device = device::find(map[i].location.id);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    device->memory();
    if (CUresult error = device::set_pool_access(pool, map[i].location.id, map[i].flags)) return error;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  if (CUresult error = device::initialized()) return error;
  if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (!device::find(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  unsigned given = 0;
  if (CUresult error = device::get_pool_access(pool, location->id, &given)) return error;
  *flags = static_cast<CUmemAccess_flags>(given);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice ordinal) {
  if (CUresult error = device::initialized()) return error;
  device::Device* device = device::find(ordinal);
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  *pool = device::default_pool(device->memory());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice ordinal) {
  if (CUresult error = device::initialized()) return error;
  device::Device* device = device::find(ordinal);
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  *pool = device::current_pool(device->memory());
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool pool) {
  if (CUresult error = device::initialized()) return error;
  device::Device* device = device::find(ordinal);
  return device ? device::set_current_pool(device->memory(), pool) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  if (CUresult error = device::initialized()) return error;
  device::Device* device = nullptr;
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = device_at(location, type, &device)) return error;
  *pool = device::default_pool(device->memory());
  return CUDA_SUCCESS;
}

CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  if (CUresult error = device::initialized()) return error;
  device::Device* device = nullptr;
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = device_at(location, type, &device)) return error;
  *pool = device::current_pool(device->memory());
  return CUDA_SUCCESS;
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  if (CUresult error = device::initialized()) return error;
  device::Device* device = nullptr;
  if (CUresult error = device_at(location, type, &device)) return error;
  return device::set_current_pool(device->memory(), pool);
}

}  // extern "C"
