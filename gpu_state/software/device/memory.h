// A device's memory and what all devices share: device, pinned and managed memory in one area of addresses
// chosen at random, with a shadow that says to the byte what is allocated (engine/memory_view.h). Any thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gpu_state/software/device/allocation.h"
#include "gpu_state/software/engine/memory_view.h"

namespace cropdl::device {

class AccessTable;

class Memory {
 public:
  explicit Memory(int ordinal);
  ~Memory();
  Memory(const Memory&) = delete;

  // Alignment as the driver's: 256 bytes at least, large ones begin at 2 MiB. Exactly `size` bytes may be
  // accessed; they contain Area's pattern. CUDA_ERROR_OUT_OF_MEMORY beyond the device's size, which is
  // counted in pages of 2 MiB. `kind`: kDevice or kModule.
  CUresult allocate(size_t size, CUdeviceptr* address, CUcontext context = nullptr,
                    MemoryKind kind = MemoryKind::kDevice);
  // CUDA_ERROR_INVALID_VALUE: it is not the beginning of an allocation of that kind on this device. Whoever
  // calls has waited for the device.
  CUresult release(CUdeviceptr address, MemoryKind kind = MemoryKind::kDevice);
  size_t free_bytes() const;
  size_t total_bytes() const;
  const engine::MemoryView& view() const;
  // Whether this device may access all of these bytes; any address and size.
  bool allows(uint64_t address, uint64_t size, bool write) const;

  // The memory that a context leaves behind when it is destroyed: its allocations, of the host's memory too,
  // and what it registered of that.
  static void release_all(CUcontext context);

  // Whether kernels here may access what cuMemAlloc hands out there (cuCtxEnablePeerAccess); pools and
  // mappings have accesses of their own.
  void allow_peer(Memory& peer, bool allowed);
  bool peer_allowed(const Memory& peer) const;

  // Bytes for malloc in kernels, no more than the device has. CUDA_ERROR_INVALID_VALUE: a kernel has used it;
  // CUDA_ERROR_OUT_OF_MEMORY.
  CUresult set_kernel_heap(size_t size);
  size_t kernel_heap() const;

  struct Body;
  Body& body() { return *body_; }

 private:
  std::unique_ptr<Body> body_;
};

// The memory of a device that was made; null: none.
Memory* memory_of(int ordinal);

// Memory of the host, page-aligned, that all devices may access: cuMemHostAlloc. Flags are kept.
CUresult allocate_pinned(size_t size, unsigned flags, CUcontext context, int device, void** address);
CUresult release_pinned(void* address);
// CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, …_NOT_REGISTERED, CUDA_ERROR_INVALID_VALUE for what cannot be
// accessed.
CUresult register_host(void* address, size_t size, unsigned flags, CUcontext context, int device);
CUresult unregister_host(void* address);

// Managed memory, that all devices and the host may access. `of_module`: a __managed__ variable, which
// programs cannot free.
CUresult allocate_managed(size_t size, unsigned flags, CUcontext context, int device, CUdeviceptr* address,
                          bool of_module = false);
CUresult release_managed(CUdeviceptr address, bool of_module = false);

// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
CUresult set_sync_memops(CUdeviceptr address, bool on);

}  // namespace cropdl::device
