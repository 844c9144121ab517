// Allocates memory within a range of the area. Small allocations are packed into pages by size, each followed
// by at least one inaccessible byte; large ones have their own pages. Everything under memory_lock().
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "gpu_state/software/device/address_allocator.h"
#include "gpu_state/software/device/allocation.h"
#include "gpu_state/software/device/area.h"

namespace cropdl::device {

class Heap;

// Adjacent pages: one allocation, or slots of one size.
struct Chunk {
  Heap* heap = nullptr;
  uint64_t begin = 0, pages = 0;
  uint32_t slot = 0;                      // bytes; 0: one allocation
  uint32_t live = 0;                      // number of allocations
  std::vector<Allocation*> allocations;   // by slot; null: empty
  std::deque<uint16_t> vacant;            // free slots, in the order of their next use
  std::list<Chunk*>::iterator with_room;  // position in the heap's list, if in_list
  bool in_list = false;
  std::list<std::unique_ptr<Chunk>>::iterator self;

  // The allocation in the slot that contains the address.
  Allocation* at(uint64_t address) const {
    return allocations[slot ? std::min<uint64_t>((address - begin) / slot, allocations.size() - 1) : 0];
  }
};

// The budget that pages are charged to.
class Budget {
 public:
  virtual ~Budget() = default;
  virtual bool charge(uint64_t bytes) = 0;
  virtual void credit(uint64_t bytes) = 0;
};

class Heap {
 public:
  // `alignment`: a power of two from 256 to 4096. `seed`: chooses addresses, or kLowest, as for `places`. The
  // references must outlive the heap.
  Heap(AddressAllocator& places, Budget& budget, MemoryKind kind, int device, uint32_t alignment,
       uint64_t seed);
  ~Heap();
  Heap(const Heap&) = delete;

  // Allocates memory that is not yet accessible. Null: no budget or no addresses left.
  Allocation* allocate(uint64_t size);
  // Makes the memory inaccessible, poisons it and drops the allocation.
  void release(Allocation* allocation);

  // Sets that device's access to all memory of this heap, present and future: CU_MEM_ACCESS_FLAGS_PROT_…
  void set_access(int device, unsigned flags);
  unsigned access(int device) const { return access_[static_cast<size_t>(device)]; }

  // Visits all allocations; `visit` may release the one that it gets.
  template <class Visit>
  void each(Visit visit) {
    for (auto chunk = chunks_.begin(); chunk != chunks_.end();) {
      Chunk* one = (chunk++)->get();
      std::vector<Allocation*> present = one->allocations;
      for (Allocation* allocation : present)
        if (allocation) visit(allocation);
    }
  }

 private:
  struct Size {  // slots of one size
    uint32_t bytes = 0;
    std::list<Chunk*> with_room;
    std::deque<std::pair<Chunk*, uint16_t>> resting;  // freed recently
    uint32_t empty = 0;                               // empty chunks that are kept
  };
  Chunk* new_chunk(uint64_t pages, uint32_t slot);
  void retire(Chunk* chunk);
  void show(const Chunk& chunk, bool there) const;
  Allocation* allocate_slot(Size& size, uint64_t bytes);
  void make_vacant(Size& size, Chunk* chunk, uint16_t slot);
  Size& size_for(uint64_t bytes);
  Allocation* made(uint64_t begin, uint64_t size) const;

  AddressAllocator& places_;
  Budget& budget_;
  const MemoryKind kind_;
  const int device_;
  uint64_t random_;
  const bool lowest_;
  std::vector<Size> sizes_;
  std::vector<uint8_t> size_of_;  // by bytes / 256
  std::list<std::unique_ptr<Chunk>> chunks_;
  std::array<unsigned, 16> access_{};
};

// The allocation that contains an address of the area; null: none. Under the lock.
Allocation* allocation_at(uint64_t address);

}  // namespace cropdl::device
