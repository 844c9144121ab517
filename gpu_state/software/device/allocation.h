// The description of one allocation, the list of those that are not in the area, and the lock of all memory
// state. (find_allocation() is in lookup.h.)
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>

namespace cropdl::device {

constexpr uint32_t kAllocationUnit = 256;  // of a heap, a pool and a graph

enum class MemoryKind : uint8_t {
  kDevice,      // cuMemAlloc
  kModule,      // a module's variable: only the module frees it
  kPool,        // cuMemAllocAsync and the like
  kGraph,       // by a graph's allocation node
  kKernelHeap,  // malloc in a kernel: unknown to host functions
  kManaged,     // cuMemAllocManaged
  kPinned,      // cuMemHostAlloc
  kRegistered,  // cuMemHostRegister: memory that the caller owns
  kVirtual,     // cuMemMap: one mapping
};

struct Allocation {
  CUdeviceptr begin = 0;
  uint64_t size = 0;  // as requested
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;  // the owner; for host and managed memory, the device of the context that requested it
  CUcontext context = nullptr;
  unsigned flags = 0;  // cuMemHostAlloc's, cuMemHostRegister's, cuMemAllocManaged's
  uint64_t id = 0;     // CU_POINTER_ATTRIBUTE_BUFFER_ID: never reused
  CUmemoryPool pool = nullptr;
  CUcontext user = nullptr;  // pools: the context of the allocating stream; the memory ends with it
  bool sync_memops = false;
  bool of_module = false;  // a __managed__ variable: only the module frees it
  bool freed = false;      // cuMemFreeAsync was called but has not run

  bool on_host() const { return kind == MemoryKind::kPinned || kind == MemoryKind::kRegistered; }
};

// Guards all memory state except what kernels read (shadow and access tables).
std::mutex& memory_lock();

// Allocation::id of a new allocation. With the lock.
uint64_t next_allocation_id();

// Registered host memory and large managed memory, by their ends. Under the lock.
std::map<uint64_t, Allocation>& registered_memory();
// The large managed memory that contains the address; null: none. Under the lock.
Allocation* large_managed_at(uint64_t address);
// Whether all of it is in the list and may be read or written. Takes the lock.
bool registered_allows(uint64_t address, uint64_t size, bool write);

}  // namespace cropdl::device
