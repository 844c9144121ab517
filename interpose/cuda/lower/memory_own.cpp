// Address ranges, physical memory and mappings that the program makes itself (gpu_state/memory/own.h). Memory
// shared with other processes, and the host's, cannot be made again: it refuses checkpoints while it has a
// handle or is mapped. Source: CUDA Driver API 13.0, "Virtual Memory Management". LH, LH FS base, a thread of
// the program.
#include <cstring>

#include "interpose/cuda/lower/memory.h"

using namespace cropdl::cuda;
using cropdl::memory::OwnPhysical;

namespace {

using Handle = CUmemGenericAllocationHandle;

Handle real(Handle handle) { return rt::real(handle, kind::cudaMemAllocation); }

uint64_t name_allocation(Handle made, uint64_t size, const CUmemAllocationProp& what, uint32_t function) {
  rt::RecipeWriter recipe;
  recipe.value<uint64_t>(size);
  recipe.array(&what, 1);
  const bool ours = what.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                    what.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE;
  return rt::made_word(made, kind::cudaMemAllocation, kDriver, function, ours ? &recipe : nullptr);
}

// Whether Own::set_access() keeps access from there.
bool is_kept(const CUmemLocation& from) {
  return from.type == CU_MEM_LOCATION_TYPE_DEVICE && from.id < cropdl::memory::kDevices;
}

}  // namespace

extern "C" {

CUresult lower_cuMemAddressReserve(CUdeviceptr* address, size_t size, size_t alignment, CUdeviceptr wish,
                                   unsigned long long flags) {
  rt::Call call;
  DeviceMemory* its = device_memory();
  return its ? its->own.reserve(address, size, alignment, wish, flags) : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult lower_cuMemAddressFree(CUdeviceptr address, size_t size) {
  rt::Call call;
  DeviceMemory* its = device_memory();
  return its ? its->own.free(address, size) : CUDA_ERROR_INVALID_VALUE;
}
CUresult lower_cuMemCreate(Handle* handle, size_t size, const CUmemAllocationProp* what,
                           unsigned long long flags) {
  rt::Call call;
  DeviceMemory* its = device_memory();
  if (!its) return CUDA_ERROR_OUT_OF_MEMORY;
  Handle made = 0;
  const bool of_a_device = what && what->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (const CUresult error = with_room(of_a_device ? what->location.id : -1, [&] {
        return CROPDL_DRIVER(cuMemCreate)(handle ? &made : nullptr, size, what, flags);
      }))
    return error;
  const uint64_t word = name_allocation(made, size, *what, driver::kFn_cuMemCreate);
  if (!its->own.made(word, size, *what)) {
    rt::forget_word(word);
    CROPDL_DRIVER(cuMemRelease)(made);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = word;
  return CUDA_SUCCESS;
}
int64_t again_cuMemCreate(rt::Again& from) {
  const auto size = from.value<uint64_t>();
  Handle made = 0;
  const CUmemAllocationProp* what = from.array<CUmemAllocationProp>();
  const CUresult error =
      cropdl::memory::with_patience([&] { return CROPDL_DRIVER(cuMemCreate)(&made, size, what, 0); });
  from.made(made);
  return error;
}

CUresult lower_cuMemRelease(Handle handle) {
  rt::Call call;
  DeviceMemory* its = device_memory();
  if (!its) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(its->blocks.lock());
  // One reference to the driver's handle stands for all of the program's: a restart needs no count.
  const OwnPhysical* physical = its->own.known(handle);
  if (!physical || physical->references == 1)
    if (const CUresult error = CROPDL_DRIVER(cuMemRelease)(real(handle))) return error;
  if (its->own.released(handle)) rt::forget_word(handle);
  return CUDA_SUCCESS;
}

// Adds a reference to the handle of the memory mapped there, or makes a handle again.
CUresult lower_cuMemRetainAllocationHandle(Handle* handle, void* address) {
  rt::Call call;
  DeviceMemory* its = device_memory();
  if (!its || !handle) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(its->blocks.lock());
  const auto* mapping = its->own.mapping_around(reinterpret_cast<CUdeviceptr>(address));
  if (!mapping) return CUDA_ERROR_INVALID_VALUE;  // the arena's, not made by the program
  OwnPhysical* physical = cropdl::memory::physical_of(*mapping);
  if (!physical->word) {
    Handle made = 0;
    if (const CUresult error = CROPDL_DRIVER(cuMemRetainAllocationHandle)(&made, address)) return error;
    CUmemAllocationProp what;
    memcpy(&what, physical->properties, sizeof what);
    its->own.named(physical,
                   name_allocation(made, physical->size, what, driver::kFn_cuMemRetainAllocationHandle));
  }
  ++physical->references;
  *handle = physical->word;
  return CUDA_SUCCESS;
}
int64_t again_cuMemRetainAllocationHandle(rt::Again& from) { return again_cuMemCreate(from); }

CUresult lower_cuMemMap(CUdeviceptr address, size_t size, size_t offset, Handle handle,
                        unsigned long long flags) {
  rt::Call call;
  DeviceMemory* its = device_memory();
  return its ? its->own.map(address, size, offset, handle, real(handle), flags) : CUDA_ERROR_INVALID_VALUE;
}
CUresult lower_cuMemUnmap(CUdeviceptr address, size_t size) {
  rt::Call call;
  DeviceMemory* its = device_memory();
  if (!its) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(its->blocks.lock());
  const CUresult error = its->own.unmap(address, size);
  if (error == CUDA_SUCCESS) its->forget_numbers(address, address + size);
  return error;
}
// Memory of the host refuses checkpoints by itself (Own::refusal).
static bool is_of_device(DeviceMemory& its, CUdeviceptr address) {
  std::lock_guard lock(its.blocks.lock());
  const auto* mapping = its.own.mapping_around(address);
  if (!mapping) return false;
  CUmemAllocationProp properties;
  memcpy(&properties, cropdl::memory::physical_of(*mapping)->properties, sizeof properties);
  return properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

CUresult lower_cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* access, size_t n) {
  rt::Call call;
  DeviceMemory* its = device_memory();
  const CUresult error = its ? its->own.set_access(address, size, access, n) : CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; error == CUDA_SUCCESS && i < n; ++i)
    if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && !is_kept(access[i].location) &&
        is_of_device(*its, address))
      rt::mark_unsaved(kDriver, driver::kFn_cuMemSetAccess,
                       "memory is open to the host, or to a device above 15");
  return error;
}

}  // extern "C"
