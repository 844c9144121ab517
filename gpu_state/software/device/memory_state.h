// State that the parts of the memory share: one per process, under memory_lock() unless stated otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "gpu_state/software/device/access.h"
#include "gpu_state/software/device/allocation.h"
#include "gpu_state/software/device/heap.h"
#include "gpu_state/software/device/memory.h"

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

struct MemoryState {
  MemoryState();
  std::mutex lock;
  uint64_t last_id = 0;
  std::array<Memory*, 16> memories{};  // by ordinal; null: not made yet
  AddressAllocator common, common_of_modules;
  Bounded pinned_budget, managed_budget;
  Heap pinned, managed, managed_of_modules;
  std::map<uint64_t, Allocation> registered;  // by end; also large managed memory

  AccessTable* table(int device);
};

MemoryState& memory_state();

// An unpredictable number.
uint64_t unforeseen();

// Updates the access tables of all devices for these addresses from the list of registered memory. With the
// lock.
void show_registered(uint64_t begin, uint64_t end);

// Removes the context's registrations (cuMemHostRegister) and releases its large managed memory. With the
// lock.
void unregister_all(CUcontext context);

// Large managed memory (memory_large.cpp) is in the list of registered memory. With the lock: returns the one
// that contains the address (null: none); releases the one at that position.
Allocation* large_managed_at(uint64_t address);
std::map<uint64_t, Allocation>::iterator release_large_managed(
    std::map<uint64_t, Allocation>::iterator known);
// Take the lock. False: not the beginning of large managed memory.
bool is_large_managed(uint64_t size);
CUresult allocate_large_managed(uint64_t size, unsigned flags, CUcontext context, int device,
                                CUdeviceptr* address);
bool release_large_managed(CUdeviceptr address);

// Whether all of it is registered host memory that may be read or written. Takes the lock.
bool registered_allows(uint64_t address, uint64_t size, bool write);

// Whether the host may read or write all of these bytes. Accesses the pages without changing them; no signal
// is raised.
bool host_allows(uint64_t address, uint64_t size, bool write);

}  // namespace cropdl::device
