// cuMemAlloc, cuMemHostAlloc, cuMemHostRegister, cuMemAllocManaged and the functions that free. Source: CUDA
// Driver API 13.0, "Memory Management".
#include <cuda.h>

#include "gpu_state/software/device/arrays.h"
#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/graphs_memory.h"
#include "gpu_state/software/device/library_work.h"
#include "gpu_state/software/device/lookup.h"
#include "gpu_state/software/device/memory.h"
#include "gpu_state/software/device/memory_host.h"
#include "gpu_state/software/device/pools.h"
#include "gpu_state/software/device/streams.h"
#include "gpu_state/software/device/work.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;

namespace {

// Start of all functions that allocate or free: they may wait, so they are forbidden during some captures.
CUresult enter(CUcontext* context, const char* kind, CUresult usual) {
  if (CUresult error = device::enter(context)) return error;
  if (CUresult error = device::unsafe_while_capturing()) return error;
  const int injected = settings::injected(kind);
  return injected < 0 ? usual : static_cast<CUresult>(injected);
}

CUresult enter_allocation(CUcontext* context) { return enter(context, "malloc", CUDA_ERROR_OUT_OF_MEMORY); }
CUresult enter_free(CUcontext* context) { return enter(context, "free", CUDA_ERROR_INVALID_VALUE); }

// Frees wait for all work that may use the memory: the device's, or for host memory, every device's.
CUresult wait_for_users(const device::Allocation& allocation, CUcontext context) {
  const bool everybodys = allocation.on_host() || allocation.kind == device::MemoryKind::kManaged;
  for (int ordinal = 0; everybodys && ordinal < device::count(); ++ordinal)
    if (CUcontext other = device::primary_of(*device::find(ordinal)); other->alive.load() && other != context)
      (void)device::wait_for_all(other);  // an error there is not this call's
  return device::wait_for_all(allocation.context ? allocation.context : context);
}

// Ending a context frees its memory and revokes its peer access.
const bool kKept = device::when_a_context_ends(device::Keeper::kMemory, [](CUcontext context) {
  device::destroy_arrays(context);
  device::Memory::release_all(context);
  device::release_pooled_of(context);
  device::release_left_of(context);
  device::Memory& own = context->device->memory();
  for (int peer = 0; peer < device::count(); ++peer)
    if (device::Device* other = device::find(peer); other && other != context->device)
      if (own.peer_allowed(other->memory())) own.allow_peer(other->memory(), false);
});

}  // namespace

extern "C" {

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  *free = context->device->memory().free_bytes();
  *total = context->device->memory().total_bytes();
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t size) {
  CUcontext context;
  if (CUresult error = enter_allocation(&context)) return error;
  if (!address || size == 0) return CUDA_ERROR_INVALID_VALUE;
  return context->device->memory().allocate(size, address, context);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                            unsigned element) {
  CUcontext context;
  if (CUresult error = enter_allocation(&context)) return error;
  if (!address || !pitch || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  constexpr size_t kPitch = 512;  // CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT
  size_t rounded = 0, size = 0;
  if (__builtin_add_overflow(width, kPitch - 1, &rounded)) return CUDA_ERROR_INVALID_VALUE;
  rounded = rounded / kPitch * kPitch;
  if (__builtin_mul_overflow(rounded, height, &size)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (CUresult error = context->device->memory().allocate(size, address, context)) return error;
  *pitch = rounded;
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  CUcontext context;
  if (CUresult error = enter_free(&context)) return error;
  const auto known = device::find_allocation(address);
  if (!known || known->begin != address || known->freed) return CUDA_ERROR_INVALID_VALUE;
  // Does not wait: "callers must ensure that all accesses … have completed before invoking cuMemFree".
  if (known->kind == device::MemoryKind::kPool) return device::release_pooled(address);
  if (known->kind == device::MemoryKind::kGraph) return device::release_left(address);
  const bool managed = known->kind == device::MemoryKind::kManaged && !known->of_module;
  if (!managed && known->kind != device::MemoryKind::kDevice) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = wait_for_users(*known, context)) return error;
  return managed ? device::release_managed(address) : device::find(known->device)->memory().release(address);
}

CUresult cuMemHostAlloc(void** address, size_t size, unsigned flags) {
  CUcontext context;
  if (CUresult error = enter_allocation(&context)) return error;
  constexpr unsigned kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (!address || size == 0 || flags & ~kKnown) return CUDA_ERROR_INVALID_VALUE;
  return device::allocate_pinned(size, flags, context, context->device->ordinal, address);
}

CUresult cuMemAllocHost_v2(void** address, size_t size) { return cuMemHostAlloc(address, size, 0); }

CUresult cuMemFreeHost(void* address) {
  CUcontext context;
  if (CUresult error = enter_free(&context)) return error;
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  const auto known = device::find_allocation(at);
  if (!known || known->begin != at || known->kind != device::MemoryKind::kPinned)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = wait_for_users(*known, context)) return error;
  return device::release_pinned(address);
}

CUresult cuMemHostRegister_v2(void* address, size_t size, unsigned flags) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (CUresult error = device::unsafe_while_capturing()) return error;
  constexpr unsigned kKnown =
      CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
  if (flags & CU_MEMHOSTREGISTER_IOMEMORY) {
    settings::say_not_built("cuMemHostRegister with CU_MEMHOSTREGISTER_IOMEMORY");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (!address || size == 0 || flags & ~kKnown) return CUDA_ERROR_INVALID_VALUE;
  return device::register_host(address, size, flags, context, context->device->ordinal);
}

CUresult cuMemHostUnregister(void* address) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (CUresult error = device::unsafe_while_capturing()) return error;
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  const auto known = device::find_allocation(at);
  if (!known || known->begin != at || known->kind != device::MemoryKind::kRegistered)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  if (CUresult error = wait_for_users(*known, context)) return error;
  return device::unregister_host(address);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device_address, void* address, unsigned flags) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  if (!device_address || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto known = device::find_allocation(at);
  if (!known || !known->on_host()) return CUDA_ERROR_INVALID_VALUE;
  *device_address = at;  // CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned* flags, void* address) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  const auto known = device::find_allocation(reinterpret_cast<CUdeviceptr>(address));
  if (!flags || !known || !known->on_host()) return CUDA_ERROR_INVALID_VALUE;
  *flags = known->flags;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr* address, size_t size, unsigned flags) {
  CUcontext context;
  if (CUresult error = enter_allocation(&context)) return error;
  if (!address || size == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  return device::allocate_managed(size, flags, context, context->device->ordinal, address);
}

}  // extern "C"
