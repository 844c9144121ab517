// Pointer queries: cuPointerGetAttribute(s), cuPointerSetAttribute, cuMemGetAddressRange; and
// cropdl_software_gpu_check (device/library_work.h). Source: CUDA Driver API 13.0, "Unified Addressing".
#include <cuda.h>

#include <cstring>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/library_work.h"
#include "gpu_state/software/device/lookup.h"
#include "gpu_state/software/device/memory.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;
using device::Allocation;
using device::MemoryKind;

namespace {

template <class T>
CUresult give(void* data, T value) {
  *static_cast<T*>(data) = value;
  return CUDA_SUCCESS;
}

// The access rights of the current context's device.
unsigned access_flags(CUdeviceptr address) {
  CUcontext context = device::current();
  if (!context) return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
  const engine::MemoryView& view = context->device->memory().view();
  if (view.allows(address, 1, true)) return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
  return view.allows(address, 1, false) ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                        : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

CUresult attribute(void* data, CUpointer_attribute which, const Allocation& of, CUdeviceptr address) {
  const bool managed = of.kind == MemoryKind::kManaged;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(data, of.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(data, of.on_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!managed && !of.on_host()) return CUDA_ERROR_INVALID_VALUE;
      return give(data, reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give(data, of.sync_memops);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return give(data, static_cast<unsigned long long>(of.id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(data, managed);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(data, of.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return give(data, false);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return give(data, of.begin);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return give(data, static_cast<size_t>(of.size));
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(data, true);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return give(data, static_cast<unsigned long long>(CU_MEM_HANDLE_TYPE_NONE));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give(data, access_flags(address));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give(data, of.pool);
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      settings::say_not_built("cuPointerGetAttribute of CU_POINTER_ATTRIBUTE_P2P_TOKENS");
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// The size of an attribute's value. For unknown pointers the value is set to zero, or to an invalid device
// number.
size_t attribute_size(CUpointer_attribute which) {
  switch (which) {
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return sizeof(bool);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return sizeof(int);
    default:
      return sizeof(uint64_t);
  }
}

bool known_attribute(CUpointer_attribute which) {
  return which >= CU_POINTER_ATTRIBUTE_CONTEXT && which <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE;
}

}  // namespace

extern "C" {

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr address) {
  if (CUresult error = device::initialized()) return error;
  if (!data || !known_attribute(which)) return CUDA_ERROR_INVALID_VALUE;
  const auto known = device::find_allocation(address);
  return known ? attribute(data, which, *known, address) : CUDA_ERROR_INVALID_VALUE;
}

// "If the pointer was not allocated by, mapped by, or registered with CUDA, then each attribute gets NULL,
// and CUDA_SUCCESS is returned"; likewise an attribute that this memory does not have.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** data,
                                CUdeviceptr address) {
  if (CUresult error = device::initialized()) return error;
  if (count == 0 || !which || !data) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i)
    if (!data[i] || !known_attribute(which[i])) return CUDA_ERROR_INVALID_VALUE;
  const auto known = device::find_allocation(address);
  for (unsigned i = 0; i < count; ++i) {
    if (known && attribute(data[i], which[i], *known, address) == CUDA_SUCCESS) continue;
    std::memset(data[i], 0, attribute_size(which[i]));
    if (which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) give(data[i], int{CU_DEVICE_INVALID});
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute which, CUdeviceptr address) {
  if (CUresult error = device::initialized()) return error;
  if (!value || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  unsigned on = 0;
  std::memcpy(&on, value, sizeof on);
  return device::set_sync_memops(address, on != 0);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  const auto known = device::find_allocation(address);
  if (!known) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = known->begin;
  if (size) *size = known->size;
  return CUDA_SUCCESS;
}

}  // extern "C"

extern "C" CUresult cropdl_software_gpu_check(CUdeviceptr address, size_t size, int write) {
  CUcontext context = device::working_for();
  if (!context)
    if (CUresult error = device::enter(&context)) return error;
  return context->device->memory().allows(address, size, write != 0) ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_ILLEGAL_ADDRESS;
}
