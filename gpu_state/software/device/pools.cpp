#include "gpu_state/software/device/pools.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/graphs_memory.h"
#include "gpu_state/software/device/live.h"
#include "gpu_state/software/device/memory.h"
#include "gpu_state/software/device/memory_state.h"
#include "gpu_state/software/device/work.h"

namespace cropdl::device {

namespace {

// What a pool requests from its device at a time, if the device has that much.
constexpr uint64_t kStep = 32 << 20;

class Unbounded final : public Budget {  // the pool itself counts what it reserves
 public:
  bool charge(uint64_t) override { return true; }
  void credit(uint64_t) override {}
};
Unbounded unbounded;

std::atomic<bool> some_hold_more;  // than their thresholds, so that pools_after_waiting() has work

}  // namespace

}  // namespace cropdl::device

struct CUmemPoolHandle_st {
  CUmemPoolHandle_st(cropdl::device::MemoryBody& its_body, uint64_t most)
      : body(its_body),
        most(most),
        heap(body.places, cropdl::device::unbounded, cropdl::device::MemoryKind::kPool, body.ordinal, 256,
             cropdl::device::unforeseen()) {}
  cropdl::device::MemoryBody& body;
  const uint64_t most;  // the most bytes that it may reserve
  cropdl::device::Heap heap;
  uint64_t threshold = 0, reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  int reuse[4] = {0, 1, 1, 1};  // indexed by CU_MEMPOOL_ATTR_REUSE_…
  bool is_default = false;

  static uint64_t counted(uint64_t size) {
    return (size + cropdl::device::kAllocationUnit - 1) / cropdl::device::kAllocationUnit *
           cropdl::device::kAllocationUnit;
  }
  bool reserve(uint64_t bytes) {
    if (bytes > most - used) return false;
    if (used + bytes <= reserved) return true;
    const uint64_t missing = used + bytes - reserved;
    for (uint64_t step : {cropdl::device::kStep, cropdl::device::kPage}) {
      const uint64_t more = (missing + step - 1) / step * step;
      if (more > most - reserved || !body.budget.charge(more)) continue;
      reserved += more;
      reserved_high = std::max(reserved_high, reserved);
      return true;
    }
    return false;
  }
  void give_back(uint64_t keep) {
    if (keep >= reserved) return;
    const uint64_t least =
        (std::max(keep, used) + cropdl::device::kPage - 1) / cropdl::device::kPage * cropdl::device::kPage;
    if (reserved <= least) return;
    body.budget.credit(reserved - least);
    reserved = least;
  }
};

namespace cropdl::device {

namespace {

// A destroyed pool stays in `ended` while it has allocations. Guarded by memory_lock().
struct Pools {
  Live<CUmemPoolHandle_st> live;
  std::vector<std::shared_ptr<CUmemPoolHandle_st>> ended;  // destroyed but still in use
  std::array<CUmemoryPool, 16> initial{}, current{};
};

Pools& pools() {
  static auto* kPools = new Pools;
  return *kPools;
}

CUmemoryPool default_pool_locked(Memory& memory) {
  CUmemoryPool& pool = pools().initial[static_cast<size_t>(memory.body().ordinal)];
  if (!pool) {
    auto made = std::make_shared<CUmemPoolHandle_st>(memory.body(), memory.body().budget.total);
    made->is_default = true;
    pool = pools().live.add(made);
  }
  return pool;
}

void no_longer_used(Allocation* known) {
  CUmemoryPool pool = known->pool;
  pool->used -= CUmemPoolHandle_st::counted(known->size);
  if (pool->reserved > pool->threshold && pool->reserved > pool->used) some_hold_more.store(true);
}

void forget_ended() {
  std::erase_if(pools().ended, [](auto& pool) {
    bool empty = true;
    pool->heap.each([&](Allocation*) { empty = false; });
    if (empty) pool->give_back(0);
    return empty;
  });
}

Allocation* with_id(CUdeviceptr address, uint64_t id) {
  Allocation* known = allocation_at(address);
  return known && known->begin == address && known->id == id ? known : nullptr;
}

}  // namespace

CUresult create_pool(const CUmemPoolProps& properties, CUmemoryPool* pool) {
  MemoryBody* body = body_of(properties.location.id);
  if (!body) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t total = body->budget.total;
  std::lock_guard lock(memory_lock());
  const uint64_t most = properties.maxSize ? std::min<uint64_t>(total, properties.maxSize) : total;
  *pool = pools().live.add(std::make_shared<CUmemPoolHandle_st>(*body, most));
  return CUDA_SUCCESS;
}

CUresult destroy_pool(CUmemoryPool handle) {
  std::lock_guard lock(memory_lock());
  auto pool = pools().live.find(handle);
  if (!pool) return CUDA_ERROR_INVALID_HANDLE;
  if (pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  for (CUmemoryPool& current : pools().current)
    if (current == handle) current = nullptr;  // the default pool again
  pools().live.take(handle);
  pools().ended.push_back(std::move(pool));
  forget_ended();
  return CUDA_SUCCESS;
}

CUmemoryPool default_pool(Memory& memory) {
  std::lock_guard lock(memory_lock());
  return default_pool_locked(memory);
}

CUmemoryPool current_pool(Memory& memory) {
  std::lock_guard lock(memory_lock());
  CUmemoryPool current = pools().current[static_cast<size_t>(memory.body().ordinal)];
  return current ? current : default_pool_locked(memory);
}

CUresult set_current_pool(Memory& memory, CUmemoryPool handle) {
  std::lock_guard lock(memory_lock());
  auto pool = pools().live.find(handle);
  if (!pool) return CUDA_ERROR_INVALID_HANDLE;
  if (pool->body.ordinal != memory.body().ordinal) return CUDA_ERROR_INVALID_VALUE;
  pools().current[static_cast<size_t>(memory.body().ordinal)] = handle;
  return CUDA_SUCCESS;
}

CUresult trim_pool(CUmemoryPool handle, uint64_t keep) {
  std::lock_guard lock(memory_lock());
  auto pool = pools().live.find(handle);
  if (!pool) return CUDA_ERROR_INVALID_HANDLE;
  pool->give_back(keep);
  return CUDA_SUCCESS;
}

void pools_after_waiting() {
  if (!some_hold_more.load(std::memory_order_relaxed) || !some_hold_more.exchange(false)) return;
  std::lock_guard lock(memory_lock());
  for (auto& pool : pools().live.all()) pool->give_back(pool->threshold);
  forget_ended();
}

CUresult set_pool_attribute(CUmemoryPool handle, CUmemPool_attribute which, const void* value) {
  std::lock_guard lock(memory_lock());
  auto pool = pools().live.find(handle);
  if (!pool) return CUDA_ERROR_INVALID_HANDLE;
  int flag = 0;
  uint64_t bytes = 0;
  switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      std::memcpy(&flag, value, sizeof flag);
      if (flag != 0 && flag != 1) return CUDA_ERROR_INVALID_VALUE;
      pool->reuse[which] = flag;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      std::memcpy(&pool->threshold, value, sizeof pool->threshold);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    // "it is only legal to set it to 0", which sets it to the present value
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      std::memcpy(&bytes, value, sizeof bytes);
      if (bytes != 0) return CUDA_ERROR_INVALID_VALUE;
      if (which == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        pool->used_high = pool->used;
      else
        pool->reserved_high = pool->reserved;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult get_pool_attribute(CUmemoryPool handle, CUmemPool_attribute which, void* value) {
  std::lock_guard lock(memory_lock());
  auto pool = pools().live.find(handle);
  if (!pool) return CUDA_ERROR_INVALID_HANDLE;
  auto bytes = [&](uint64_t what) {
    std::memcpy(value, &what, sizeof what);
    return CUDA_SUCCESS;
  };
  switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      std::memcpy(value, &pool->reuse[which], sizeof(int));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return bytes(pool->threshold);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return bytes(pool->reserved);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return bytes(pool->reserved_high);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return bytes(pool->used);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return bytes(pool->used_high);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult set_pool_access(CUmemoryPool handle, int device, unsigned flags) {
  std::lock_guard lock(memory_lock());
  auto pool = pools().live.find(handle);
  if (!pool) return CUDA_ERROR_INVALID_HANDLE;
  if (device < 0 || device >= 16) return CUDA_ERROR_INVALID_DEVICE;
  if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
      flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    return CUDA_ERROR_INVALID_VALUE;
  if (device == pool->body.ordinal)  // it always has access
    return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  pool->heap.set_access(device, flags);
  return CUDA_SUCCESS;
}

CUresult get_pool_access(CUmemoryPool handle, int device, unsigned* flags) {
  std::lock_guard lock(memory_lock());
  auto pool = pools().live.find(handle);
  if (!pool) return CUDA_ERROR_INVALID_HANDLE;
  if (device < 0 || device >= 16) return CUDA_ERROR_INVALID_DEVICE;
  *flags =
      device == pool->body.ordinal ? unsigned{CU_MEM_ACCESS_FLAGS_PROT_READWRITE} : pool->heap.access(device);
  return CUDA_SUCCESS;
}

CUresult allocate_pooled(CUmemoryPool handle, uint64_t size, CUcontext user, CUdeviceptr* address,
                         uint64_t* id) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(memory_lock());
  auto pool = pools().live.find(handle);
  if (!pool) return CUDA_ERROR_INVALID_HANDLE;
  if (size > pool->most) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t counted = CUmemPoolHandle_st::counted(size);
  if (!pool->reserve(counted)) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation* made = pool->heap.allocate(size);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  pool->used += counted;
  pool->used_high = std::max(pool->used_high, pool->used);
  made->pool = handle;
  made->user = user;
  *address = made->begin;
  *id = made->id;
  return CUDA_SUCCESS;
}

CUresult free_in_order(ReleaseWork* work) {
  {
    std::lock_guard lock(memory_lock());
    Allocation* known = allocation_at(work->address);
    if (!known || known->begin != work->address || known->freed) return CUDA_ERROR_INVALID_VALUE;
    work->id = known->id;
    if (known->kind == MemoryKind::kPool || known->kind == MemoryKind::kDevice) {
      known->freed = true;
      if (known->kind == MemoryKind::kPool) no_longer_used(known);
      return CUDA_SUCCESS;
    }
  }
  work->reservation = now_freed(work->address);
  return work->reservation ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult release_pooled(CUdeviceptr address) {
  std::lock_guard lock(memory_lock());
  Allocation* known = allocation_at(address);
  if (!known || known->begin != address || known->kind != MemoryKind::kPool || known->freed)
    return CUDA_ERROR_INVALID_VALUE;
  no_longer_used(known);
  known->pool->heap.release(known);
  return CUDA_SUCCESS;
}

void release_pooled_of(CUcontext user) {
  std::lock_guard lock(memory_lock());
  auto all = pools().live.all();
  all.insert(all.end(), pools().ended.begin(), pools().ended.end());
  for (const auto& pool : all) {
    pool->heap.each([&](Allocation* one) {
      if (one->user != user) return;
      if (!one->freed) no_longer_used(one);
      pool->heap.release(one);
    });
    if (pool->body.ordinal == user->device->ordinal) pool->give_back(0);
  }
  forget_ended();
}

CUresult perform(const AllocateWork& work, CUcontext) {
  std::lock_guard lock(memory_lock());
  Allocation* known = with_id(work.address, work.id);
  if (!known) return CUDA_SUCCESS;  // cuMemFree was earlier
  if (known->kind == MemoryKind::kGraph) return open_for_graph(*known);
  Area::get().make_fresh(known->begin, known->size);
  Area::get().open(known->begin, known->size);
  return CUDA_SUCCESS;
}

CUresult perform(const ReleaseWork& work, CUcontext) {
  std::lock_guard lock(memory_lock());
  Allocation* known = with_id(work.address, work.id);
  if (!known) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (known->kind == MemoryKind::kGraph) return close_for_graph(*known);
  if (known->kind == MemoryKind::kPool)
    known->pool->heap.release(known);
  else
    memory_state().bodies[static_cast<size_t>(known->device)]->device.release(known);
  return CUDA_SUCCESS;
}

}  // namespace cropdl::device
