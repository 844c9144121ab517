#include "gpu_state/software/device/graphs_memory.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "gpu_state/software/device/memory_state.h"

namespace cropdl::device {

namespace {

struct Reserved {
  std::weak_ptr<void> reservation;
  Reservation left;  // the program's reservation
  CUcontext left_in = nullptr;
  uint64_t owner = 0;
  std::set<uint64_t> freed_by;  // graphs
};

// Guarded by memory_lock().
struct GraphMemories {
  std::map<CUdeviceptr, Reserved> of;
  std::array<std::unique_ptr<Heap>, 16> heaps;
  std::array<GraphMemory, 16> counts;
};
GraphMemories& memories() {
  static auto* all = new GraphMemories;
  return *all;
}

GraphMemory& count_of(const Allocation& allocation) {
  return memories().counts[static_cast<size_t>(allocation.device)];
}

uint64_t counted(const Allocation& allocation) {
  return (allocation.size + kAllocationUnit - 1) / kAllocationUnit * kAllocationUnit;
}

bool is_open(const Allocation& allocation) { return Area::get().accessible(allocation.begin, 1); }

void close(Allocation& allocation) {
  Area::get().close(allocation.begin, allocation.size);
  count_of(allocation).used -= counted(allocation);
}

// The last Reservation is gone. The memory may still be accessible if a launch was dropped half way.
void give_back(CUdeviceptr address) {
  std::lock_guard lock(memory_lock());
  memories().of.erase(address);
  Allocation* allocation = allocation_at(address);
  if (is_open(*allocation)) close(*allocation);
  count_of(*allocation).reserved -= counted(*allocation);
  memories().heaps[static_cast<size_t>(allocation->device)]->release(allocation);
}

// Null: no Reservation exists. With the lock.
Reserved* reserved_at(CUdeviceptr address) {
  auto at = memories().of.find(address);
  return at == memories().of.end() || at->second.reservation.expired() ? nullptr : &at->second;
}

}  // namespace

CUresult reserve_allocation(uint64_t graph, int device, size_t size, AllocateWork* work,
                            Reservation* reservation) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  MemoryBody* body = body_of(device);
  if (!body) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(memory_lock());
  if (size > body->budget.total) return CUDA_ERROR_OUT_OF_MEMORY;
  std::unique_ptr<Heap>& heap = memories().heaps[static_cast<size_t>(device)];
  if (!heap)
    heap = std::make_unique<Heap>(body->places, body->budget, MemoryKind::kGraph, device, 256, unforeseen());
  Allocation* made = heap->allocate(size);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  GraphMemory& count = count_of(*made);
  count.reserved += counted(*made);
  count.reserved_high = std::max(count.reserved_high, count.reserved);
  *work = {nullptr, size, made->begin, made->id};
  CUdeviceptr address = made->begin;
  *reservation = Reservation(reinterpret_cast<void*>(address), [address](void*) { give_back(address); });
  Reserved& known = memories().of[address];
  known.reservation = *reservation;
  known.owner = graph;
  return CUDA_SUCCESS;
}

Reservation reservation_of(CUdeviceptr address) {
  std::lock_guard lock(memory_lock());
  Reserved* known = reserved_at(address);
  return known ? known->reservation.lock() : nullptr;
}

CUresult check_free_in_graph(uint64_t graph, ReleaseWork* work) {
  std::lock_guard lock(memory_lock());
  Reserved* known = reserved_at(work->address);
  if (!known || known->freed_by.count(graph)) return CUDA_ERROR_INVALID_VALUE;
  bool is_owner = known->owner == graph;
  if (known->freed_by.count(known->owner) || (is_owner && !known->freed_by.empty()))
    return CUDA_ERROR_INVALID_VALUE;
  work->id = allocation_at(work->address)->id;
  return CUDA_SUCCESS;
}

void freed_in_graph(uint64_t graph, CUdeviceptr address) {
  std::lock_guard lock(memory_lock());
  if (Reserved* known = reserved_at(address)) known->freed_by.insert(graph);
}

bool is_left_allocated(CUdeviceptr address) {
  std::lock_guard lock(memory_lock());
  Reserved* known = reserved_at(address);
  return known && known->left;
}

void now_left(CUdeviceptr address, CUcontext context) {
  std::lock_guard lock(memory_lock());
  Reserved* known = reserved_at(address);
  if (!known) return;
  known->left = known->reservation.lock();
  known->left_in = context;
}

Reservation now_freed(CUdeviceptr address) {
  std::lock_guard lock(memory_lock());
  Reserved* known = reserved_at(address);
  return known ? std::exchange(known->left, nullptr) : nullptr;
}

CUresult release_left(CUdeviceptr address) {
  Reservation had;  // released after the unlock
  std::lock_guard lock(memory_lock());
  Reserved* known = reserved_at(address);
  if (!known || !known->left || !is_open(*allocation_at(address))) return CUDA_ERROR_INVALID_VALUE;
  had = std::exchange(known->left, nullptr);
  close(*allocation_at(address));
  return CUDA_SUCCESS;
}

void release_left_of(CUcontext context) {
  std::vector<Reservation> had;  // released after the unlock
  std::lock_guard lock(memory_lock());
  for (auto& [address, known] : memories().of) {
    if (!known.left || known.left_in != context) continue;
    had.push_back(std::exchange(known.left, nullptr));
    if (Allocation* allocation = allocation_at(address); is_open(*allocation)) close(*allocation);
  }
}

CUresult open_for_graph(Allocation& allocation) {
  if (is_open(allocation)) return CUDA_ERROR_INVALID_VALUE;
  GraphMemory& count = count_of(allocation);
  count.used += counted(allocation);
  count.used_high = std::max(count.used_high, count.used);
  Area::get().make_fresh(allocation.begin, allocation.size);
  Area::get().open(allocation.begin, allocation.size);
  return CUDA_SUCCESS;
}

CUresult close_for_graph(Allocation& allocation) {
  if (!is_open(allocation)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  close(allocation);
  return CUDA_SUCCESS;
}

GraphMemory graph_memory(int device) {
  std::lock_guard lock(memory_lock());
  return memories().counts[static_cast<size_t>(device)];
}

void reset_graph_memory_high(int device, bool used) {
  std::lock_guard lock(memory_lock());
  GraphMemory& count = memories().counts[static_cast<size_t>(device)];
  if (used)
    count.used_high = count.used;
  else
    count.reserved_high = count.reserved;
}

}  // namespace cropdl::device
