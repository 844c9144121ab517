// Large managed memory: separate mappings outside of the area, at addresses chosen by the system, as a
// driver's are. The list of registered host memory states, to the byte, what devices may access of them.
#include <sys/mman.h>

#include <iterator>

#include "gpu_state/software/device/memory_body.h"
#include "gpu_state/software/device/memory_managed.h"

namespace cropdl::device {

namespace {

constexpr uint64_t kLargeManaged = uint64_t{32} << 20;

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

// A multiple of kPage; 0: no room.
uint64_t map_anywhere(uint64_t size) {
  void* got = ::mmap(nullptr, size + kPage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return 0;
  const auto first = reinterpret_cast<uint64_t>(got);
  const uint64_t begin = (first + kPage - 1) / kPage * kPage;
  if (begin > first) ::munmap(got, begin - first);
  ::munmap(pointer(begin + size), first + kPage - begin);
  return begin;
}

}  // namespace

bool is_large_managed(uint64_t size) { return size >= kLargeManaged; }

Allocation* large_managed_at(uint64_t address) {
  auto& all = memory_state().registered;
  const auto known = all.upper_bound(address);
  if (known == all.end() || known->second.begin > address || known->second.kind != MemoryKind::kManaged)
    return nullptr;
  return &known->second;
}

CUresult allocate_large_managed(uint64_t size, unsigned flags, CUcontext context, int device,
                                CUdeviceptr* address) {
  MemoryState& state = memory_state();
  std::lock_guard lock(state.lock);
  if (size > state.managed_budget.total) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t whole = pages_for(size) * kPage;
  if (!state.managed_budget.charge(whole)) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t begin = map_anywhere(whole);
  if (begin == 0) {
    state.managed_budget.credit(whole);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Area::get().make_fresh(begin, size);
  Allocation made;
  made.begin = begin;
  made.size = size;
  made.kind = MemoryKind::kManaged;
  made.device = device;
  made.context = context;
  made.flags = flags;
  made.id = ++state.last_id;
  state.registered[begin + size] = made;
  show_registered(begin, begin + size);
  *address = begin;
  return CUDA_SUCCESS;
}

std::map<uint64_t, Allocation>::iterator release_large_managed(
    std::map<uint64_t, Allocation>::iterator known) {
  MemoryState& state = memory_state();
  const uint64_t begin = known->second.begin, size = known->second.size;
  const uint64_t whole = pages_for(size) * kPage;
  forget_advice(begin, size);
  const auto next = state.registered.erase(known);
  show_registered(begin, begin + size);
  ::munmap(pointer(begin), whole);
  state.managed_budget.credit(whole);
  return next;
}

bool release_large_managed(CUdeviceptr address) {
  MemoryState& state = memory_state();
  std::lock_guard lock(state.lock);
  const Allocation* known = large_managed_at(address);
  if (!known || known->begin != address) return false;
  release_large_managed(state.registered.find(known->begin + known->size));
  return true;
}

}  // namespace cropdl::device
