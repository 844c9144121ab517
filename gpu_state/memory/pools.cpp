#include "gpu_state/memory/pools.h"

#include <algorithm>
#include <iterator>

namespace cropdl::memory {
namespace {

// A larger block is taken if little of it is wasted.
bool fits(uint64_t room, uint64_t wanted) {
  return room >= wanted && room - wanted <= wanted / 2 + kBlockUnit;
}

// The block's share of the pool's bytes in use: its requested size, whatever room it has, in units of
// cudaMalloc's alignment, as the software GPU counts. NVIDIA's driver does not document how it rounds.
uint64_t in_use(const Block* block) { return rounded_up(block->size, 256); }

}  // namespace

Pools::Pools(const Driver& driver, Blocks& blocks, Arena& arena)
    : driver_(driver), blocks_(blocks), arena_(arena) {
  blocks_.state().pools.each([&](Pool* one) {
    if (!one->destroyed) pools_[one->key] = one;
  });
  // In an image, the only freed blocks are those that pools keep: see settle().
  blocks_.each([&](Block* one) {
    if (one->freed) kept_.emplace(std::pair(pool_of(one), one->room), one);
  });
}

Pool* Pools::known(uint64_t key) const {
  std::lock_guard lock(blocks_.lock());
  const auto found = pools_.find(key);
  return found == pools_.end() ? nullptr : found->second;
}

Pool* Pools::pool(uint64_t key, int device) {
  std::lock_guard lock(blocks_.lock());
  if (Pool* there = known(key)) return there;
  Pool* made = blocks_.state().pools.make();
  if (!made) return nullptr;
  made->key = key;
  made->device = device;
  pools_[key] = made;
  return made;
}

Block* Pools::take_out(Queue& queue, std::list<Freed>::iterator one, bool event_ended) {
  const Freed freed = *one;
  queue.by_room.erase(std::find_if(queue.by_room.lower_bound(freed.block->room), queue.by_room.end(),
                                   [&](const auto& its) { return its.second == one; }));
  queue.order.erase(one);
  // Recording the event again discards its previous wait.
  if (!event_ended) events_[freed.context].events.push_back(freed.event);
  return freed.block;
}

Block* Pools::of_stream(Pool* pool, uint64_t room, uint64_t stream) {
  const auto found = queues_.find(stream);
  if (found == queues_.end()) return nullptr;
  Queue& queue = found->second;
  for (auto one = queue.by_room.lower_bound(room); one != queue.by_room.end() && fits(one->first, room);
       ++one) {
    const Block* block = one->second->block;
    if (pool_of(block) != pool || block->device != pool->device) continue;
    return take_out(queue, one->second);
  }
  return nullptr;
}

Block* Pools::kept(Pool* pool, uint64_t room) {
  const auto found = kept_.lower_bound({pool, room});
  if (found == kept_.end() || found->first.first != pool || !fits(found->first.second, room)) return nullptr;
  Block* block = found->second;
  kept_.erase(found);
  return block;
}

Block* Pools::hand_out(Pool* pool, Block* block, uint64_t size) {
  block->size = size;
  block->freed = 0;
  block->flags = 0;
  block->sync_memops = 0;
  block->id = blocks_.next_id();
  pool->used += in_use(block);
  pool->used_high = std::max(pool->used_high, pool->used);
  return block;
}

CUresult Pools::allocate(Pool* pool, uint64_t size, CUstream stream, Block** block) {
  std::lock_guard lock(blocks_.lock());
  const OutsideOfCaptures outside(driver_);
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > kArenaSlice) return CUDA_ERROR_OUT_OF_MEMORY;  // rounding it up could overflow
  unsigned long long id = 0;
  if (const CUresult error = driver_.cuStreamGetId(stream, &id)) return error;
  const uint64_t room = rounded_up(size, kBlockUnit);
  Block* found = of_stream(pool, room, id);
  if (!found) {
    collect();
    found = kept(pool, room);
  }
  if (found) {
    *block = hand_out(pool, found, size);
    return CUDA_SUCCESS;
  }
  if (pool->most && pool->reserved + room > pool->most) trim(pool, 0);
  if (pool->most && pool->reserved + room > pool->most) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult error = arena_.allocate(pool->device, size, BlockKind::kPool, &found);
  if (error == CUDA_ERROR_OUT_OF_MEMORY) {
    reclaim(pool->device);
    error = arena_.allocate(pool->device, size, BlockKind::kPool, &found);
  }
  if (error != CUDA_SUCCESS) return error;
  found->pool = reinterpret_cast<uint64_t>(pool);
  pool->reserved += found->room;
  pool->reserved_high = std::max(pool->reserved_high, pool->reserved);
  *block = hand_out(pool, found, size);
  return CUDA_SUCCESS;
}

CUresult Pools::free(Block* block, CUstream stream) {
  std::lock_guard lock(blocks_.lock());
  const OutsideOfCaptures outside(driver_);
  if (block->freed) return CUDA_ERROR_INVALID_VALUE;
  unsigned long long id = 0;
  CUcontext context = nullptr;
  CUdevice device = 0;
  CUresult error = driver_.cuStreamGetId(stream, &id);
  if (!error) error = driver_.cuStreamGetCtx(stream, &context);
  if (!error) error = driver_.cuStreamGetDevice(stream, &device);
  if (error) return error;
  const InContext in(driver_, context);
  Freed freed{block, nullptr, context, device};
  auto& [its, events] = events_[context];
  its = device;
  if (events.empty()) {
    if ((error = driver_.cuEventCreate(&freed.event, CU_EVENT_DISABLE_TIMING))) return error;
  } else {
    freed.event = events.back();
    events.pop_back();
  }
  if ((error = driver_.cuEventRecord(freed.event, stream))) {
    driver_.cuEventDestroy_v2(freed.event);
    return error;
  }
  block->freed = 1;
  if (Pool* pool = pool_of(block)) pool->used -= in_use(block);
  Queue& queue = queues_[id];
  queue.by_room.emplace(block->room, queue.order.insert(queue.order.end(), freed));
  return CUDA_SUCCESS;
}

void Pools::give_back(Block* block) {
  Pool* pool = pool_of(block);
  if (pool) pool->reserved -= block->room;
  arena_.release(block);
  if (pool && pool->destroyed && pool->reserved == 0) drop(pool);
}

// Peers that only this pool admitted lose their access.
void Pools::drop(Pool* pool) {
  const int device = pool->peers ? pool->device : -1;
  blocks_.state().pools.drop(pool);
  if (device >= 0) (void)arena_.open_to_peers(device);
}

void Pools::collect(bool all) {
  std::lock_guard lock(blocks_.lock());
  const OutsideOfCaptures outside(driver_);
  for (auto queue = queues_.begin(); queue != queues_.end();) {
    auto& order = queue->second.order;
    while (!order.empty()) {
      if (!all && driver_.cuEventQuery(order.front().event) != CUDA_SUCCESS) break;
      Block* block = take_out(queue->second, order.begin());
      Pool* pool = pool_of(block);
      if (pool && !pool->destroyed && pool->reserved <= pool->keep)
        kept_.emplace(std::pair(pool, block->room), block);
      else
        give_back(block);
    }
    queue = order.empty() ? queues_.erase(queue) : std::next(queue);
  }
}

void Pools::drop_kept(int device) {
  std::erase_if(kept_, [&](const auto& one) {
    if (one.second->device != device) return false;
    give_back(one.second);
    return true;
  });
}

void Pools::reclaim(int device) {
  std::lock_guard lock(blocks_.lock());
  collect();
  drop_kept(device);
}

void Pools::forget(int device) {
  std::lock_guard lock(blocks_.lock());
  for (auto queue = queues_.begin(); queue != queues_.end();) {
    auto& order = queue->second.order;
    for (auto next = order.begin(); next != order.end();) {
      const auto one = next++;
      if (one->device == device || one->block->device == device)
        give_back(take_out(queue->second, one, one->device == device));
    }
    queue = order.empty() ? queues_.erase(queue) : std::next(queue);
  }
  std::erase_if(events_, [&](const auto& one) { return one.second.device == device; });
  drop_kept(device);
}

CUresult Pools::open_to(Pool* pool, uint32_t peers) {
  std::lock_guard lock(blocks_.lock());
  const uint32_t before = pool->peers;
  pool->peers = peers & ((1u << kDevices) - 1) & ~(1u << pool->device);
  const CUresult error = arena_.open_to_peers(pool->device);
  if (error) pool->peers = before;
  return error;
}

void Pools::release(Block* block) {
  std::lock_guard lock(blocks_.lock());
  if (Pool* pool = pool_of(block)) pool->used -= in_use(block);
  give_back(block);
}

void Pools::trim(Pool* pool, uint64_t keep) {
  std::lock_guard lock(blocks_.lock());
  const OutsideOfCaptures outside(driver_);
  collect();
  while (pool->reserved > keep) {
    const auto one = kept_.lower_bound({pool, 0});
    if (one == kept_.end() || one->first.first != pool) return;
    Block* block = one->second;
    kept_.erase(one);
    give_back(block);
  }
}

void Pools::destroy(Pool* pool) {
  std::lock_guard lock(blocks_.lock());
  trim(pool, 0);
  pools_.erase(pool->key);  // the key may be reused
  if (pool->reserved == 0) return drop(pool);
  pool->destroyed = 1;
}

}  // namespace cropdl::memory
