// State that the parts of the memory share: one per process, under memory_lock() unless stated otherwise.
#pragma once

#include <array>
#include <cstdint>

#include "gpu_state/software/device/access.h"
#include "gpu_state/software/device/allocation.h"
#include "gpu_state/software/device/heap.h"

namespace cropdl::device {

// A limited budget: a device's memory, the host's.
class Bounded final : public Budget {
 public:
  explicit Bounded(uint64_t total) : total(total) {}
  bool charge(uint64_t bytes) override {
    if (bytes > total - used) return false;
    used += bytes;
    return true;
  }
  void credit(uint64_t bytes) override { used -= bytes; }
  const uint64_t total;
  uint64_t used = 0;
};

// The members of a device's Memory.
struct MemoryBody {
  explicit MemoryBody(int ordinal);
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

struct MemoryState {
  MemoryState();
  std::array<MemoryBody*, 16> bodies{};  // by ordinal; null: not made yet
  AddressAllocator common, common_of_modules;
  Bounded pinned_budget, managed_budget;
  Heap pinned, managed, managed_of_modules;
};

MemoryState& memory_state();

// The memory of a device; null: it has not been made. Takes the lock.
MemoryBody* body_of(int ordinal);

// An unpredictable number.
uint64_t unforeseen();

}  // namespace cropdl::device
