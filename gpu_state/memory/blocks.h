// Index of all blocks of device memory in the process by address, whatever their kind. It has the lock that
// protects all of this folder's state. LH, LH FS base, any thread.
#pragma once

#include <map>
#include <mutex>

#include "gpu_state/memory/state.h"

namespace cropdl::memory {

class Blocks {
 public:
  // Indexes the records of `state`, which must outlive it. A fresh State has none.
  explicit Blocks(State& state);

  // Each public function of this folder's classes takes it. Recursive, because they call one another.
  std::recursive_mutex& lock() const { return lock_; }
  State& state() const { return state_; }

  // Makes the block's record, with a new id. nullptr: the heap is full.
  Block* make(uint64_t begin, uint64_t size, uint64_t room, BlockKind kind, int device);
  void drop(Block* block);

  // The block that begins there and is not freed; nullptr: none.
  Block* at(uint64_t begin) const;
  // The block whose room contains the address, freed or not; nullptr: none.
  Block* around(uint64_t address) const;
  uint64_t next_id() { return ++state_.last_id; }

  // In the order of addresses. `visit` may drop the block that it gets.
  template <class Visit>
  void each(Visit visit) const {
    each_within(0, ~uint64_t{0}, visit);
  }
  template <class Visit>
  void each_within(uint64_t begin, uint64_t end, Visit visit) const {
    for (auto one = by_begin_.lower_bound(begin); one != by_begin_.end() && one->first < end;)
      visit((one++)->second);
  }
  // The bytes of the blocks that begin within the range, with their room.
  uint64_t used_within(uint64_t begin, uint64_t end) const {
    uint64_t used = 0;
    each_within(begin, end, [&](const Block* one) { used += one->room; });
    return used;
  }

 private:
  mutable std::recursive_mutex lock_;
  State& state_;
  std::map<uint64_t, Block*> by_begin_;
};

}  // namespace cropdl::memory
