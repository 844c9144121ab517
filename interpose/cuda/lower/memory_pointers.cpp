// Attributes of an address. The program's allocation is a part of a mapping of the arena, so its begin, size,
// id and pool come from its block; the driver answers the rest. Source: CUDA Driver API 13.0, "Unified
// Addressing". LH, LH FS base, a thread of the program.
#include <cstring>
#include <map>

#include "interpose/cuda/lower/contexts.h"
#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/memory.h"
#include "interpose/cuda/lower/saved_memory.h"

using namespace cropdl::cuda;
using cropdl::memory::Block;
using cropdl::memory::BlockKind;

namespace {

// Whether the address is in the arena or a managed region, of which the program has only the blocks.
bool is_ours(CUdeviceptr address) {
  using namespace cropdl::memory;
  return known_device_memory() && address >= kManagedBegin && address < kArenaBegin + kDevices * kArenaSlice;
}

template <class T>
bool give(void* data, T value) {
  *static_cast<T*>(data) = value;
  return true;
}

CUmemoryPool pool_of(const Block& block) {
  if (block.kind != BlockKind::kPool || !block.pool) return nullptr;
  const uint64_t key = reinterpret_cast<const cropdl::memory::Pool*>(block.pool)->key;
  if (rt::is_virtual(key)) return rt::handle_of<CUmemoryPool>(key);
  CUmemoryPool real = nullptr;
  if (CROPDL_DRIVER(cuDeviceGetDefaultMemPool)(&real, block.device) != CUDA_SUCCESS) return nullptr;
  const uint64_t known = rt::virtual_of(rt::word_of(real), kind::cudaMemPool);
  return rt::handle_of<CUmemoryPool>(known);
}

// The context to which the driver's own memory of that device would belong: the current one if it is of the
// device, else the device's primary one.
CUcontext context_of(const Block& block) {
  const CUcontext current = current_context();
  CUdevice device = -1;
  if (current && CROPDL_DRIVER(cuCtxGetDevice)(&device) == CUDA_SUCCESS && device == block.device)
    return current;
  CUcontext primary = nullptr;
  if (!device_used(block.device) ||
      CROPDL_DRIVER(cuDevicePrimaryCtxRetain)(&primary, block.device) != CUDA_SUCCESS)
    return current;
  CROPDL_DRIVER(cuDevicePrimaryCtxRelease_v2)(block.device);
  return primary;
}

// Answers from the block itself; false: ask the driver.
bool from_block(void* data, CUpointer_attribute which, const Block& block) {
  switch (which) {
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return give(data, static_cast<unsigned long long>(block.id));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return give(data, static_cast<CUdeviceptr>(block.begin));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return give(data, static_cast<size_t>(block.size));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give(data, pool_of(block));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(data, block.device);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give(data, block.sync_memops != 0);
    case CU_POINTER_ATTRIBUTE_CONTEXT:  // the driver knows mapped memory, which belongs to none
      return block.kind != BlockKind::kManaged && give(data, virtual_context(context_of(block)));
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:  // the arena's are for NVIDIA's libraries only
      return block.kind != BlockKind::kManaged && give(data, uint64_t{CU_MEM_HANDLE_TYPE_NONE});
    default:
      return false;
  }
}

// Replaces a real context by the program's handle.
void name_context(void* data) { give(data, virtual_context(*static_cast<CUcontext*>(data))); }

bool is_number(CUpointer_attribute which) {
  return which == CU_POINTER_ATTRIBUTE_BUFFER_ID || which == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID;
}

// Where memory that the driver itself has placed (a variable) begins. If it has another id there than before,
// it is other memory, and gets another number. Under the lock of `blocks`.
uint64_t begin_of_drivers(DeviceMemory& memory, CUdeviceptr address) {
  static auto& ids = *new std::map<uint64_t, uint64_t>;  // the driver's in this run, by begin
  CUdeviceptr begin = 0;
  unsigned long long id = 0;
  const auto ask = CROPDL_DRIVER(cuPointerGetAttribute);
  if (ask(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) != CUDA_SUCCESS ||
      ask(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) != CUDA_SUCCESS || begin == 0)
    return 0;
  const auto [known, is_new] = ids.try_emplace(begin, id);
  if (!is_new && known->second != id) memory.forget_numbers(begin, begin + 1);
  known->second = id;
  return begin;
}

// Replaces the driver's own id, which would differ after a restart and may equal a block's.
void name_memory(void* data, CUdeviceptr address) {
  DeviceMemory* its = device_memory();
  if (!its) return;
  std::lock_guard lock(its->blocks.lock());
  const HostMemory* host = its->host_around(address);
  const cropdl::memory::OwnMapping* mapping = host ? nullptr : its->own.mapping_around(address);
  const uint64_t begin = host ? host->begin : mapping ? mapping->begin : begin_of_drivers(*its, address);
  if (begin == 0) return;  // no memory
  if (const uint64_t number = its->number_of(begin))
    give(data, static_cast<unsigned long long>(number));
  else
    rt::mark_unsaved(kDriver, driver::kFn_cuPointerGetAttribute,
                     "there is no room to note the number of a buffer");
}

CUresult attribute_at(void* data, CUpointer_attribute which, CUdeviceptr address) {
  const auto block = block_around(address);
  if (data && block && from_block(data, which, *block)) return CUDA_SUCCESS;
  if (!block && is_ours(address)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult error = CROPDL_DRIVER(cuPointerGetAttribute)(data, which, address);
  if (error == CUDA_SUCCESS && which == CU_POINTER_ATTRIBUTE_CONTEXT) name_context(data);
  if (error == CUDA_SUCCESS && is_number(which)) name_memory(data, address);
  return error;
}

}  // namespace

std::optional<Block> cropdl::cuda::block_around(CUdeviceptr address) {
  const DeviceMemory* its = known_device_memory();
  if (!its) return std::nullopt;
  std::lock_guard lock(its->blocks.lock());
  const Block* found = its->blocks.around(address);
  return found && !found->freed ? std::optional(*found) : std::nullopt;
}

cropdl::Status cropdl::cuda::set_pointer_attributes_again() {
  DeviceMemory* its = known_device_memory();
  std::lock_guard lock(its->blocks.lock());
  CUresult error = CUDA_SUCCESS;
  const auto set = [&](uint64_t address) {
    const unsigned one = 1;
    if (!error) error = CROPDL_DRIVER(cuPointerSetAttribute)(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
  };
  its->blocks.each([&](const Block* one) {
    if (one->sync_memops && one->kind == BlockKind::kManaged) set(one->begin);
  });
  for (const auto& [begin, one] : its->host)
    if (one->sync_memops && !one->gone) set(begin);
  return its->driver.checked(error, "an attribute of the program's memory cannot be set again");
}

extern "C" {

CUresult lower_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags);  // primary_contexts.cpp

CUresult lower_cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr address) {
  rt::Call call;
  return attribute_at(data, which, address);
}

CUresult lower_cuPointerGetAttributes(unsigned n, CUpointer_attribute* which, void** data,
                                      CUdeviceptr address) {
  rt::Call call;
  // The driver checks the arguments, and answers for addresses that have no allocation.
  const CUdeviceptr asked = !block_around(address) && is_ours(address) ? 0 : address;
  if (const CUresult error = CROPDL_DRIVER(cuPointerGetAttributes)(n, which, data, asked)) return error;
  const auto block = block_around(address);
  for (unsigned i = 0; i < n; ++i) {
    if (block && from_block(data[i], which[i], *block)) continue;
    if (which[i] == CU_POINTER_ATTRIBUTE_CONTEXT)
      name_context(data[i]);
    else if (is_number(which[i]) && asked)
      name_memory(data[i], asked);
  }
  return CUDA_SUCCESS;
}

CUresult lower_cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  rt::Call call;
  const auto block = block_around(address);
  if (!block)
    return is_ours(address) ? CUDA_ERROR_NOT_FOUND
                            : CROPDL_DRIVER(cuMemGetAddressRange_v2)(base, size, address);
  if (base) *base = block->begin;
  if (size) *size = block->size;
  return CUDA_SUCCESS;
}

// Drivers keep no such attribute for mapped memory, such as the arena's. Instead, the device's context
// synchronizes all of its memory from then on. The flag is kept with the context's others.
static CUresult synchronize_all(int device) {
  unsigned flags = 0;
  int active = 0;
  if (const CUresult error = CROPDL_DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active)) return error;
  if (flags & CU_CTX_SYNC_MEMOPS) return CUDA_SUCCESS;
  flags &= ~static_cast<unsigned>(CU_CTX_MAP_HOST);  // always set
  return lower_cuDevicePrimaryCtxSetFlags_v2(device, flags | CU_CTX_SYNC_MEMOPS);
}

// Sets an attribute of the memory, which ends with it.
CUresult lower_cuPointerSetAttribute(const void* value, CUpointer_attribute which, CUdeviceptr address) {
  rt::Call call;
  DeviceMemory* its = device_memory();
  if (!its) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(its->blocks.lock());
  Block* block = its->blocks.around(address);
  if ((block && block->freed) || (!block && is_ours(address))) return CUDA_ERROR_INVALID_VALUE;
  unsigned set = 0;
  if (!value || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  memcpy(&set, value, sizeof set);
  const bool mapped = block && block->kind != BlockKind::kManaged;
  if (const CUresult error = !mapped ? CROPDL_DRIVER(cuPointerSetAttribute)(value, which, address)
                             : set   ? synchronize_all(block->device)
                                     : CUDA_SUCCESS)
    return error;
  HostMemory* host = block ? nullptr : its->host_around(address);
  if (block)
    block->sync_memops = set != 0;
  else if (host)
    host->sync_memops = set != 0;
  else
    rt::mark_unsaved(kDriver, driver::kFn_cuPointerSetAttribute,
                     "it was set of memory that is no allocation");
  return CUDA_SUCCESS;
}

// Between blocks the driver knows a mapping that is not memory of the program.
cudaError_t lower_cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  rt::Call call;
  const auto address = reinterpret_cast<CUdeviceptr>(p);
  const auto block = block_around(address);
  const int nobodys = 0;
  const void* asked = !block && is_ours(address) ? &nobodys : p;
  const cudaError_t error = CROPDL_CUDART(cudaPointerGetAttributes)(attributes, asked);
  if (error != cudaSuccess || !attributes) return error;
  if (asked != p && attributes->hostPointer == asked) attributes->hostPointer = const_cast<void*>(p);
  if (asked != p && attributes->devicePointer == asked) attributes->devicePointer = nullptr;
  if (block) attributes->device = block->device;
  return error;
}

}  // extern "C"
