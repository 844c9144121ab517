// A device's memory and what all devices share: device, pinned and managed memory in one area of addresses
// chosen at random, with a shadow that says to the byte what is allocated (engine/memory_view.h). Any thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gpu_state/software/engine/memory_view.h"

namespace cropdl::device {

class Memory {
 public:
  explicit Memory(int ordinal);
  ~Memory();
  // Alignment as the driver's: 256 bytes at least, sizes above 1 MiB begin at 2 MiB. Freed memory is
  // overwritten with a pattern and its addresses rest a while before they are given again.
  // CUDA_ERROR_OUT_OF_MEMORY beyond the device's size.
  CUresult allocate(size_t size, CUdeviceptr* address);
  CUresult release(
      CUdeviceptr address);  // CUDA_ERROR_INVALID_VALUE: it is not the beginning of an allocation
  size_t free_bytes() const;
  size_t total_bytes() const;
  const engine::MemoryView& view() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace cropdl::device
