#include "gpu_state/software/device/graphs_memory.h"

#include <set>

#include "gpu_state/software/device/pools.h"

namespace cropdl::device {

namespace {

struct Known {
  std::weak_ptr<void> reservation;
  uint64_t id = 0, owner = 0;
  std::set<uint64_t> freed_by;  // graphs
  bool is_left = false;
};

struct Allocations {
  std::mutex mutex;
  std::map<CUdeviceptr, Known> of;
};
Allocations& allocations() {
  static auto* all = new Allocations;
  return *all;
}

void give_back(CUdeviceptr address) {
  {
    std::lock_guard lock(allocations().mutex);
    auto at = allocations().of.find(address);
    bool is_left = at != allocations().of.end() && at->second.is_left;
    if (is_left) return;  // the program's, until it frees it
    allocations().of.erase(address);
  }
  drop_from_graph(address);
}

}  // namespace

CUresult reserve_allocation(uint64_t graph, int device, size_t size, AllocateWork* work) {
  work->pool = nullptr;
  work->size = size;
  if (CUresult error = reserve_for_graph(device, size, &work->address, &work->id); error != CUDA_SUCCESS)
    return error;
  std::lock_guard lock(allocations().mutex);
  Known& known = allocations().of[work->address];
  known.id = work->id;
  known.owner = graph;
  return CUDA_SUCCESS;
}

Reservation reservation_of(const AllocateWork& work) {
  if (work.pool) return nullptr;
  std::lock_guard lock(allocations().mutex);
  Known& known = allocations().of[work.address];
  known.id = work.id;
  if (Reservation there = known.reservation.lock()) return there;
  CUdeviceptr address = work.address;
  Reservation made(reinterpret_cast<void*>(address), [address](void*) { give_back(address); });
  known.reservation = made;
  return made;
}

CUresult free_in_graph(uint64_t graph, CUdeviceptr address, ReleaseWork* work) {
  std::lock_guard lock(allocations().mutex);
  auto at = allocations().of.find(address);
  if (at == allocations().of.end()) return CUDA_ERROR_INVALID_VALUE;
  Known& known = at->second;
  if (known.freed_by.count(graph)) return CUDA_ERROR_INVALID_VALUE;
  bool is_owner = known.owner == graph;
  if (known.freed_by.count(known.owner) || (is_owner && !known.freed_by.empty()))
    return CUDA_ERROR_INVALID_VALUE;
  known.freed_by.insert(graph);
  work->address = address;
  work->id = known.id;
  return CUDA_SUCCESS;
}

bool is_left_allocated(CUdeviceptr address) {
  std::lock_guard lock(allocations().mutex);
  auto at = allocations().of.find(address);
  return at != allocations().of.end() && at->second.is_left;
}

void now_allocated(CUdeviceptr address) {
  std::lock_guard lock(allocations().mutex);
  auto at = allocations().of.find(address);
  if (at != allocations().of.end()) at->second.is_left = true;
}

void now_freed(CUdeviceptr address) {
  std::lock_guard lock(allocations().mutex);
  auto at = allocations().of.find(address);
  if (at != allocations().of.end()) at->second.is_left = false;
}

}  // namespace cropdl::device
