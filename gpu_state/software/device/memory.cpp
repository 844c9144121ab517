#include "gpu_state/software/device/memory.h"

#include "gpu_state/software/device/memory_host.h"
#include "gpu_state/software/device/memory_managed.h"
#include "gpu_state/software/device/memory_state.h"

namespace cropdl::device {

Memory::Memory(int ordinal) : body_(std::make_unique<MemoryBody>(ordinal)) {
  std::lock_guard lock(memory_lock());
  memory_state().bodies[static_cast<size_t>(ordinal)] = body_.get();
  access_tables()[static_cast<size_t>(ordinal)] = &body_->table;
  for (const auto& [end, one] : registered_memory()) show_registered(one.begin, end);
}

Memory::~Memory() {
  std::lock_guard lock(memory_lock());
  memory_state().bodies[static_cast<size_t>(body_->ordinal)] = nullptr;
  access_tables()[static_cast<size_t>(body_->ordinal)] = nullptr;
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
  std::lock_guard lock(memory_lock());
  auto leave = [context](Heap& heap) {
    heap.each([&](Allocation* one) {
      if (one->context != context || one->of_module) return;
      forget_advice(one->begin, one->size);
      heap.release(one);
    });
  };
  for (MemoryBody* body : state.bodies)
    if (body) leave(body->device);
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
