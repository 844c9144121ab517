// All blocks of device memory of the process by address, whatever they are cut from; and the lock under which
// all of this folder's state lies. LH, LH FS base, any thread.
#pragma once

#include <map>
#include <mutex>

#include "gpu_state/memory/state.h"

namespace cropdl::memory {

class Blocks {
 public:
  // Indexes what the records have: none in a fresh State. The State outlives it.
  explicit Blocks(State& state);

  // Held by each public function of this folder's classes, which call one another.
  std::recursive_mutex& lock() const { return lock_; }
  State& state() const { return state_; }

  // Makes its record, with a new id. nullptr: the heap is full.
  Block* make(uint64_t begin, uint64_t size, uint64_t room, BlockKind kind, int device);
  void drop(Block* block);

  // That begins there and was not freed; nullptr: none does.
  Block* at(uint64_t begin) const;
  // Whose room contains the address, freed or not.
  Block* around(uint64_t address) const;
  uint64_t next_id() { return ++state_.last_id; }

  // By address. `visit` may drop the one that it is shown.
  template <class Visit>
  void each(Visit visit) const {
    for (auto one = by_begin_.begin(); one != by_begin_.end();) visit((one++)->second);
  }
  template <class Visit>
  void each_within(uint64_t begin, uint64_t end, Visit visit) const {
    for (auto one = by_begin_.lower_bound(begin); one != by_begin_.end() && one->first < end;)
      visit((one++)->second);
  }

 private:
  mutable std::recursive_mutex lock_;
  State& state_;
  std::map<uint64_t, Block*> by_begin_;
};

}  // namespace cropdl::memory
