#include "gpu_state/software/device/heap.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "gpu_state/software/device/access.h"

namespace cropdl::device {

namespace {

constexpr uint64_t kLargestSlot = 512 << 10;
constexpr size_t kRest = 8;  // recently freed slots per size that are not reused yet
constexpr uint32_t kManySlots =
    32;  // a size with this many slots keeps one empty chunk, so that loops are fast
constexpr uint64_t kMostBytes = uint64_t{1} << 46;  // more than the address space
constexpr uint64_t kPoisoned = 64 << 10;

uint64_t next(uint64_t* state) {  // xorshift64*
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (*state * 0x2545f4914f6cdd1du) >> 33;
}

}  // namespace

Heap::Heap(AddressAllocator& places, Budget& budget, MemoryKind kind, int device, uint32_t alignment,
           uint64_t seed)
    : places_(places),
      budget_(budget),
      kind_(kind),
      device_(device),
      random_(seed | 1),
      lowest_(seed == kLowest) {
  for (uint64_t units = 1; units * kAllocationUnit <= kLargestSlot;
       units += std::max(uint64_t{1}, std::bit_floor(units) / 2))
    if (units * kAllocationUnit % alignment == 0)
      sizes_.emplace_back().bytes = static_cast<uint32_t>(units * kAllocationUnit);
  for (uint64_t bytes = kAllocationUnit; bytes <= kLargestSlot; bytes += kAllocationUnit) {
    auto fits = std::find_if(sizes_.begin(), sizes_.end(), [&](auto& size) { return size.bytes >= bytes; });
    size_of_.push_back(static_cast<uint8_t>(fits - sizes_.begin()));
  }
}

Heap::~Heap() {
  each([this](Allocation* allocation) { release(allocation); });
  while (!chunks_.empty()) retire(chunks_.front().get());
}

Allocation* Heap::made(uint64_t begin, uint64_t size) const {
  auto* allocation = new Allocation;
  allocation->begin = begin;
  allocation->size = size;
  allocation->kind = kind_;
  allocation->device = device_;
  allocation->id = next_allocation_id();
  return allocation;
}

Allocation* Heap::allocate(uint64_t size) {
  if (size > kMostBytes) return nullptr;
  const uint64_t at_least = size + 1;  // one inaccessible byte behind it
  if (at_least <= kLargestSlot)
    return allocate_slot(sizes_[size_of_[(at_least - 1) / kAllocationUnit]], size);
  const uint64_t pages = pages_for(size);
  if (!budget_.charge(pages * kPage)) return nullptr;
  Chunk* chunk = new_chunk(pages, 0);
  if (!chunk) {
    budget_.credit(pages * kPage);
    return nullptr;
  }
  chunk->live = 1;
  return chunk->allocations[0] = made(chunk->begin, size);
}

Allocation* Heap::allocate_slot(Size& size, uint64_t bytes) {
  if (size.with_room.empty() && !new_chunk(1, size.bytes)) return nullptr;
  Chunk* chunk = lowest_ ? *std::min_element(size.with_room.begin(), size.with_room.end(),
                                             [](auto* a, auto* b) { return a->begin < b->begin; })
                         : size.with_room.front();
  if (chunk->live == 0) {
    if (!budget_.charge(kPage)) {
      // Reusing recently freed slots is better than failing.
      auto resting = std::exchange(size.resting, {});
      for (auto [one, slot] : resting) make_vacant(size, one, slot);
      auto used = std::find_if(size.with_room.begin(), size.with_room.end(),
                               [](const Chunk* one) { return one->live != 0; });
      if (used == size.with_room.end()) return nullptr;
      chunk = *used;
    } else {
      --size.empty;
    }
  }
  const uint16_t slot = chunk->vacant.front();
  chunk->vacant.pop_front();
  ++chunk->live;
  if (chunk->vacant.empty()) {
    size.with_room.erase(chunk->with_room);
    chunk->in_list = false;
  }
  return chunk->allocations[slot] = made(chunk->begin + uint64_t{slot} * chunk->slot, bytes);
}

void Heap::make_vacant(Size& size, Chunk* chunk, uint16_t slot) {
  chunk->vacant.insert(
      lowest_ ? std::lower_bound(chunk->vacant.begin(), chunk->vacant.end(), slot) : chunk->vacant.end(),
      slot);
  if (chunk->in_list) return;
  chunk->with_room = size.with_room.insert(size.with_room.end(), chunk);
  chunk->in_list = true;
}

Chunk* Heap::new_chunk(uint64_t pages, uint32_t slot) {
  const uint64_t begin = places_.take(pages);
  if (!begin) return nullptr;
  auto chunk = std::make_unique<Chunk>();
  chunk->heap = this;
  chunk->begin = begin;
  chunk->pages = pages;
  chunk->slot = slot;
  chunk->allocations.resize(slot ? kPage / slot : 1);
  if (slot) {
    chunk->vacant.resize(chunk->allocations.size());
    std::iota(chunk->vacant.begin(), chunk->vacant.end(), uint16_t{0});
    for (size_t i = lowest_ ? 0 : chunk->vacant.size(); i > 1; --i)
      std::swap(chunk->vacant[i - 1], chunk->vacant[next(&random_) % i]);
    Size& size = size_for(slot);
    ++size.empty;
    chunk->with_room = size.with_room.insert(size.with_room.end(), chunk.get());
    chunk->in_list = true;
  }
  for (uint64_t page = 0; page < pages; ++page) Area::get().owner(begin + page * kPage) = chunk.get();
  chunks_.push_back(std::move(chunk));
  chunks_.back()->self = std::prev(chunks_.end());
  show(*chunks_.back(), true);
  return chunks_.back().get();
}

void Heap::retire(Chunk* chunk) {
  show(*chunk, false);
  if (chunk->slot) {
    Size& size = size_for(chunk->slot);
    if (chunk->in_list) size.with_room.erase(chunk->with_room);
    std::erase_if(size.resting, [&](auto& one) { return one.first == chunk; });
    --size.empty;
  }
  Area& area = Area::get();
  for (uint64_t page = 0; page < chunk->pages; ++page) area.owner(chunk->begin + page * kPage) = nullptr;
  area.give_back(chunk->begin, chunk->pages * kPage);
  places_.give(chunk->begin, chunk->pages);
  chunks_.erase(chunk->self);
}

void Heap::release(Allocation* allocation) {
  Area& area = Area::get();
  auto* chunk = static_cast<Chunk*>(area.owner(allocation->begin));
  area.close(allocation->begin, allocation->size);
  const uint64_t index = chunk->slot ? (allocation->begin - chunk->begin) / chunk->slot : 0;
  chunk->allocations[index] = nullptr;
  const uint64_t size_released = allocation->size;
  const uint64_t begin = allocation->begin;
  delete allocation;
  --chunk->live;
  if (!chunk->slot) {
    budget_.credit(chunk->pages * kPage);
    retire(chunk);
    return;
  }
  area.make_freed(begin, std::min(size_released, kPoisoned));
  Size& size = size_for(chunk->slot);
  if (chunk->live == 0) {
    budget_.credit(kPage);
    ++size.empty;
    if (lowest_ || kPage / chunk->slot < kManySlots || size.empty > 1) {
      retire(chunk);
      return;
    }
  }
  size.resting.emplace_back(chunk, static_cast<uint16_t>(index));
  if (!lowest_ && size.resting.size() <= kRest) return;
  auto [oldest, slot] = size.resting.front();
  size.resting.pop_front();
  make_vacant(size, oldest, slot);
}

Heap::Size& Heap::size_for(uint64_t bytes) { return sizes_[size_of_[(bytes - 1) / kAllocationUnit]]; }

void Heap::show(const Chunk& chunk, bool there) const {
  for (size_t device = 0; device < access_.size(); ++device)
    if (access_[device])
      if (AccessTable* table = access_tables()[device])
        table->set(chunk.begin, chunk.pages * kPage, there ? static_cast<uint8_t>(access_[device]) : 0);
}

void Heap::set_access(int device, unsigned flags) {
  access_[static_cast<size_t>(device)] = flags;
  if (AccessTable* table = access_table(device))
    for (const auto& chunk : chunks_)
      table->set(chunk->begin, chunk->pages * kPage, static_cast<uint8_t>(flags));
}

Allocation* allocation_at(uint64_t address) {
  Area& area = Area::get();
  if (!area.contains(address)) return nullptr;
  auto* chunk = static_cast<Chunk*>(area.owner(address));
  return chunk ? chunk->at(address) : nullptr;
}

}  // namespace cropdl::device
