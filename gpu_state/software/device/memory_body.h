// The members of a device's Memory, for the files that implement it.
#pragma once

#include "gpu_state/software/device/memory_state.h"

namespace cropdl::device {

struct Memory::Body {
  explicit Body(int ordinal);
  const int ordinal;
  Bounded budget;
  AddressAllocator places, module_places;
  Heap device, modules;
  Bounded kernel_budget;  // for malloc in kernels, in bytes as requested
  Heap kernel_heap;
  uint64_t kernel_heap_size = 8 << 20;  // CU_LIMIT_MALLOC_HEAP_SIZE's default
  uint64_t kernel_heap_used = 0;
  bool kernel_heap_begun = false;
  uint32_t peers = 0;  // bit per device whose memory is accessible here
  AccessTable table;
  engine::MemoryView view;
};

}  // namespace cropdl::device
