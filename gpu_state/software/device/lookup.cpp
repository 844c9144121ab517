#include "gpu_state/software/device/lookup.h"

#include "gpu_state/software/device/heap.h"
#include "gpu_state/software/device/virtual_memory.h"

namespace cropdl::device {

std::optional<Allocation> find_allocation(CUdeviceptr address) {
  std::lock_guard lock(memory_lock());
  if (const Allocation* known = allocation_at(address)) {
    if (address < known->begin || address - known->begin >= known->size) return std::nullopt;
    if (known->kind == MemoryKind::kKernelHeap) return std::nullopt;
    return *known;
  }
  auto registered = registered_memory().upper_bound(address);
  if (registered != registered_memory().end() && registered->second.begin <= address)
    return registered->second;
  return mapping_at(address);
}

}  // namespace cropdl::device
