// A device's memory, and the memory that all devices share: device, pinned and managed memory are in one area
// of addresses chosen at random, with a shadow that states for each byte whether it is allocated
// (engine/memory_view.h). Any thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gpu_state/software/device/allocation.h"
#include "gpu_state/software/engine/memory_view.h"

namespace cropdl::device {

struct MemoryBody;

class Memory {
 public:
  explicit Memory(int ordinal);
  ~Memory();
  Memory(const Memory&) = delete;

  // Aligned as the driver's memory: to at least 256 bytes; large allocations begin at multiples of 2 MiB.
  // Exactly `size` bytes are accessible, with the content of fresh memory (Area). CUDA_ERROR_OUT_OF_MEMORY
  // beyond the device's size, counted in pages of 2 MiB. `kind`: kDevice or kModule.
  CUresult allocate(size_t size, CUdeviceptr* address, CUcontext context = nullptr,
                    MemoryKind kind = MemoryKind::kDevice);
  // CUDA_ERROR_INVALID_VALUE: not the beginning of an allocation of that kind on this device. The caller has
  // waited for the device.
  CUresult release(CUdeviceptr address, MemoryKind kind = MemoryKind::kDevice);
  size_t free_bytes() const;
  size_t total_bytes() const;
  const engine::MemoryView& view() const;
  // Whether this device may access all of these bytes; for any address and size.
  bool allows(uint64_t address, uint64_t size, bool write) const;

  // Releases the memory that a destroyed context leaves: its allocations, also of host memory, and its
  // registrations.
  static void release_all(CUcontext context);

  // Whether kernels of this device may access the peer's cuMemAlloc memory (cuCtxEnablePeerAccess). Pools and
  // mappings have access rights of their own.
  void allow_peer(Memory& peer, bool allowed);
  bool peer_allowed(const Memory& peer) const;

  // The size of the heap for malloc in kernels, at most the device's size. CUDA_ERROR_INVALID_VALUE: a kernel
  // has used the heap. CUDA_ERROR_OUT_OF_MEMORY.
  CUresult set_kernel_heap(size_t size);
  size_t kernel_heap() const;

  MemoryBody& body() { return *body_; }  // memory_state.h

 private:
  std::unique_ptr<MemoryBody> body_;
};

// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
CUresult set_sync_memops(CUdeviceptr address, bool on);

}  // namespace cropdl::device
