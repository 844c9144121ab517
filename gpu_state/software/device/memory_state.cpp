#include "gpu_state/software/device/memory_state.h"

#include <sys/random.h>
#include <unistd.h>

#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

uint64_t host_memory() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

bool elsewhere(void* owner, uint64_t address, size_t size, bool write) {
  return static_cast<MemoryBody*>(owner)->table.allows(address, size, write);
}

// What one malloc costs of the heap beyond its bytes; the real heap's overhead is not documented.
constexpr uint64_t kKernelHeader = 16;

uint64_t kernel_allocate(void* owner, size_t size) {
  MemoryBody& body = *static_cast<MemoryBody*>(owner);
  std::lock_guard lock(memory_lock());
  body.kernel_heap_begun = true;
  const uint64_t left = body.kernel_heap_size - body.kernel_heap_used;
  if (size == 0 || left < kKernelHeader || size > left - kKernelHeader) return 0;
  Allocation* made = body.kernel_heap.allocate(size);
  if (!made) return 0;
  body.kernel_heap_used += size + kKernelHeader;
  Area::get().make_fresh(made->begin, size);
  Area::get().open(made->begin, size);
  return made->begin;
}

bool kernel_release(void* owner, uint64_t address) {
  MemoryBody& body = *static_cast<MemoryBody*>(owner);
  std::lock_guard lock(memory_lock());
  Allocation* known = allocation_at(address);
  if (!known || known->begin != address || known->kind != MemoryKind::kKernelHeap ||
      known->device != body.ordinal)
    return false;
  body.kernel_heap_used -= known->size + kKernelHeader;
  body.kernel_heap.release(known);
  return true;
}

}  // namespace

uint64_t unforeseen() {
  uint64_t random = 0;
  while (::getrandom(&random, sizeof random, 0) != sizeof random) {
  }
  return random;
}

MemoryState::MemoryState()
    : common(Area::without_modules(Area::get().common()), unforeseen()),
      common_of_modules(Area::part_of_modules(Area::get().common()), kLowest),
      pinned_budget(host_memory()),
      managed_budget(host_memory()),
      pinned(common, pinned_budget, MemoryKind::kPinned, 0, 4096, unforeseen()),
      managed(common, managed_budget, MemoryKind::kManaged, 0, 4096, unforeseen()),
      managed_of_modules(common_of_modules, managed_budget, MemoryKind::kManaged, 0, 4096, kLowest) {}

MemoryState& memory_state() {
  static auto* kState = new MemoryState;
  return *kState;
}

MemoryBody* body_of(int ordinal) {
  if (ordinal < 0 || ordinal >= 16) return nullptr;
  std::lock_guard lock(memory_lock());
  return memory_state().bodies[static_cast<size_t>(ordinal)];
}

MemoryBody::MemoryBody(int ordinal)
    : ordinal(ordinal),
      budget(settings::settings().memory / kPage * kPage),
      places(Area::without_modules(Area::get().own(ordinal)), unforeseen()),
      module_places(Area::part_of_modules(Area::get().own(ordinal)), kLowest),
      device(places, budget, MemoryKind::kDevice, ordinal, 256, unforeseen()),
      modules(module_places, budget, MemoryKind::kModule, ordinal, 256, kLowest),
      kernel_budget(~uint64_t{0}),
      kernel_heap(places, kernel_budget, MemoryKind::kKernelHeap, ordinal, 256, unforeseen()) {
  view.owner = this;
  view.own = Area::get().own(ordinal);
  view.common = Area::get().common();
  view.area = Area::get().begin();
  view.area_size = Area::get().end() - Area::get().begin();
  view.shadow = Area::get().shadow();
  view.pages = table.pages();
  view.elsewhere = elsewhere;
  view.heap_allocate = kernel_allocate;
  view.heap_release = kernel_release;
}

}  // namespace cropdl::device
