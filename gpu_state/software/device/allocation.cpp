#include "gpu_state/software/device/allocation.h"

namespace cropdl::device {

std::mutex& memory_lock() {
  static auto* kLock = new std::mutex;
  return *kLock;
}

uint64_t next_allocation_id() {
  static uint64_t last = 0;
  return ++last;
}

std::map<uint64_t, Allocation>& registered_memory() {
  static auto* kRegistered = new std::map<uint64_t, Allocation>;
  return *kRegistered;
}

Allocation* large_managed_at(uint64_t address) {
  auto& all = registered_memory();
  const auto known = all.upper_bound(address);
  if (known == all.end() || known->second.begin > address || known->second.kind != MemoryKind::kManaged)
    return nullptr;
  return &known->second;
}

bool registered_allows(uint64_t address, uint64_t size, bool write) {
  const auto& all = registered_memory();
  std::lock_guard lock(memory_lock());
  const uint64_t end = address + size;
  while (address < end) {
    auto known = all.upper_bound(address);
    if (known == all.end() || known->second.begin > address) return false;
    if (write && known->second.flags & CU_MEMHOSTREGISTER_READ_ONLY) return false;
    address = known->first;
  }
  return true;
}

}  // namespace cropdl::device
