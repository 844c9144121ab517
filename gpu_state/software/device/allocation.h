// What is known of one piece of memory, and the lock that all of it lies under.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <mutex>
#include <optional>

namespace cropdl::device {

enum class MemoryKind : uint8_t {
  kDevice,      // cuMemAlloc
  kModule,      // a module's variable: only the module frees it
  kPool,        // cuMemAllocAsync and the like
  kGraph,       // of a graph's allocation nodes
  kKernelHeap,  // malloc in a kernel: no function of the host knows it
  kManaged,     // cuMemAllocManaged
  kPinned,      // cuMemHostAlloc
  kRegistered,  // cuMemHostRegister: somebody else's memory
  kVirtual,     // cuMemMap: one mapping
};

struct Allocation {
  CUdeviceptr begin = 0;
  uint64_t size = 0;  // as asked for
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;  // whose memory it is; of the host's and managed memory, whose context asked for it
  CUcontext context = nullptr;
  unsigned flags = 0;  // cuMemHostAlloc's, cuMemHostRegister's, cuMemAllocManaged's
  uint64_t id = 0;     // CU_POINTER_ATTRIBUTE_BUFFER_ID: never used twice
  CUmemoryPool pool = nullptr;
  CUcontext user = nullptr;  // of memory of pools: in whose stream it was allocated, and with whom it goes
  bool sync_memops = false;
  bool of_module = false;  // a __managed__ variable: only the module frees it
  bool freed = false;      // cuMemFreeAsync was called; it has not run yet

  bool on_host() const { return kind == MemoryKind::kPinned || kind == MemoryKind::kRegistered; }
};

// Guards everything about memory but what kernels read (shadow and access tables).
std::mutex& memory_lock();

// What contains that address, also behind the last byte that was asked for but never a neighbour's. Takes the
// lock. Not what kernels' malloc handed out.
std::optional<Allocation> find_allocation(CUdeviceptr address);

}  // namespace cropdl::device
