#include "gpu_state/software/device/memory.h"

#include <sys/random.h>
#include <unistd.h>

#include <utility>

#include "gpu_state/software/device/memory_body.h"
#include "gpu_state/software/device/memory_managed.h"
#include "gpu_state/software/device/virtual_memory.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

uint64_t host_memory() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

bool elsewhere(void* owner, uint64_t address, size_t size, bool write) {
  return static_cast<Memory*>(owner)->body().table.allows(address, size, write);
}

// What one malloc costs of the heap beyond its bytes; the real heap's overhead is not documented.
constexpr uint64_t kKernelHeader = 16;

uint64_t kernel_allocate(void* owner, size_t size) {
  Memory::Body& body = static_cast<Memory*>(owner)->body();
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
  Memory::Body& body = static_cast<Memory*>(owner)->body();
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

AccessTable* MemoryState::table(int device) {
  Memory* memory = memories[static_cast<size_t>(device)];
  return memory ? &memory->body().table : nullptr;
}

MemoryState& memory_state() {
  static auto* kState = new MemoryState;
  return *kState;
}

std::mutex& memory_lock() { return memory_state().lock; }

Memory* memory_of(int ordinal) {
  if (ordinal < 0 || ordinal >= 16) return nullptr;
  std::lock_guard lock(memory_lock());
  return memory_state().memories[static_cast<size_t>(ordinal)];
}

std::optional<Allocation> find_allocation(CUdeviceptr address) {
  MemoryState& state = memory_state();
  std::lock_guard lock(state.lock);
  if (const Allocation* known = allocation_at(address)) {
    if (address < known->begin || address - known->begin >= known->size) return std::nullopt;
    if (known->kind == MemoryKind::kKernelHeap) return std::nullopt;
    return *known;
  }
  auto registered = state.registered.upper_bound(address);
  if (registered != state.registered.end() && registered->second.begin <= address) return registered->second;
  return mapping_at(address);
}

Memory::Body::Body(int ordinal)
    : ordinal(ordinal),
      budget(settings::settings().memory / kPage * kPage),
      places(Area::without_modules(Area::get().own(ordinal)), unforeseen()),
      module_places(Area::part_of_modules(Area::get().own(ordinal)), kLowest),
      device(places, budget, MemoryKind::kDevice, ordinal, 256, unforeseen()),
      modules(module_places, budget, MemoryKind::kModule, ordinal, 256, kLowest),
      kernel_budget(~uint64_t{0}),
      kernel_heap(places, kernel_budget, MemoryKind::kKernelHeap, ordinal, 256, unforeseen()) {
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

Memory::Memory(int ordinal) : body_(std::make_unique<Body>(ordinal)) {
  body_->view.owner = this;
  std::lock_guard lock(memory_lock());
  memory_state().memories[static_cast<size_t>(ordinal)] = this;
  for (const auto& [end, one] : memory_state().registered) show_registered(one.begin, end);
}

Memory::~Memory() {
  std::lock_guard lock(memory_lock());
  memory_state().memories[static_cast<size_t>(body_->ordinal)] = nullptr;
  body_.reset();
}

CUresult Memory::allocate(size_t size, CUdeviceptr* address, CUcontext context, MemoryKind kind) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(memory_lock());
  Heap& heap = kind == MemoryKind::kModule ? body_->modules : body_->device;
  if (size > body_->budget.total) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation* made = heap.allocate(size);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  made->context = context;
  Area::get().make_fresh(made->begin, size);
  Area::get().open(made->begin, size);
  *address = made->begin;
  return CUDA_SUCCESS;
}

CUresult Memory::release(CUdeviceptr address, MemoryKind kind) {
  std::lock_guard lock(memory_lock());
  Allocation* known = allocation_at(address);
  if (!known || known->begin != address || known->kind != kind || known->device != body_->ordinal)
    return CUDA_ERROR_INVALID_VALUE;
  (kind == MemoryKind::kModule ? body_->modules : body_->device).release(known);
  return CUDA_SUCCESS;
}

size_t Memory::free_bytes() const {
  std::lock_guard lock(memory_lock());
  return body_->budget.total - body_->budget.used;
}

size_t Memory::total_bytes() const { return body_->budget.total; }

const engine::MemoryView& Memory::view() const { return body_->view; }

bool Memory::allows(uint64_t address, uint64_t size, bool write) const {
  const Area& area = Area::get();
  for (const auto& range : {body_->view.own, body_->view.common})
    if (address >= range.begin && address < range.end)
      return size <= range.end - address && area.accessible(address, size);
  return body_->table.allows(address, size, write);
}

void Memory::release_all(CUcontext context) {
  MemoryState& state = memory_state();
  std::lock_guard lock(state.lock);
  auto leave = [context](Heap& heap) {
    heap.each([&](Allocation* one) {
      if (one->context != context || one->of_module) return;
      forget_advice(one->begin, one->size);
      heap.release(one);
    });
  };
  for (Memory* memory : state.memories)
    if (memory) leave(memory->body().device);
  leave(state.pinned);
  leave(state.managed);
  unregister_all(context);
}

void Memory::allow_peer(Memory& peer, bool allowed) {
  std::lock_guard lock(memory_lock());
  const uint32_t bit = 1u << peer.body().ordinal;
  body_->peers = allowed ? body_->peers | bit : body_->peers & ~bit;
  const unsigned flags = allowed ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  peer.body().device.set_access(body_->ordinal, flags);
  peer.body().modules.set_access(body_->ordinal, flags);
}

bool Memory::peer_allowed(const Memory& peer) const {
  std::lock_guard lock(memory_lock());
  return body_->peers >> peer.body_->ordinal & 1;
}

CUresult Memory::set_kernel_heap(size_t size) {
  std::lock_guard lock(memory_lock());
  if (body_->kernel_heap_begun) return CUDA_ERROR_INVALID_VALUE;
  if (size > body_->budget.total) return CUDA_ERROR_OUT_OF_MEMORY;
  body_->kernel_heap_size = size;
  return CUDA_SUCCESS;
}

size_t Memory::kernel_heap() const {
  std::lock_guard lock(memory_lock());
  return body_->kernel_heap_size;
}

CUresult set_sync_memops(CUdeviceptr address, bool on) {
  std::lock_guard lock(memory_lock());
  Allocation* known = allocation_at(address);
  if (!known) known = large_managed_at(address);
  if (!known || address - known->begin >= known->size) return CUDA_ERROR_INVALID_VALUE;
  known->sync_memops = on;
  return CUDA_SUCCESS;
}

}  // namespace cropdl::device
