// The table PersistentState::outside: the program's memory outside the window (MAP_FIXED). The core changes
// it together with the memory. While the program is stopped, the LH drops entries that are not mapped: the
// kernel may later give their addresses to the LH. Freestanding; either half.
#pragma once

#include "interpose/seam/state.h"

namespace cropdl::seam {

// Locks the table. A thread of the program blocks all signals while it holds the lock, so no handler and no
// checkpoint finds the table locked. `wait()` lets another thread run.
class Extents {
 public:
  template <class Wait>
  Extents(PersistentState* s, Wait wait) : s_(s) {
    while (__atomic_exchange_n(&s_->extents_held, 1u, __ATOMIC_ACQUIRE) != 0) wait();
  }
  ~Extents() { __atomic_store_n(&s_->extents_held, 0u, __ATOMIC_RELEASE); }
  Extents(const Extents&) = delete;
  Extents& operator=(const Extents&) = delete;

  // The table once overflowed: extents without an entry are unknown.
  bool incomplete() const { return s_->extents > kMaxExtents; }
  uint32_t size() const { return incomplete() ? kMaxExtents : s_->extents; }
  // An entry is empty if its end is 0.
  OutsideExtent operator[](uint32_t i) const { return s_->outside[i]; }

  void add(uint64_t begin, uint64_t end) {
    // Merges with every entry that it touches.
    for (uint32_t i = 0; i < size(); ++i) {
      OutsideExtent& e = s_->outside[i];
      if (e.end == 0 || e.end < begin || end < e.begin) continue;
      if (e.begin < begin) begin = e.begin;
      if (e.end > end) end = e.end;
      e = {0, 0};
    }
    put({begin, end});
  }

  void remove(uint64_t begin, uint64_t end) {
    for (uint32_t i = 0; i < size(); ++i) {
      OutsideExtent& e = s_->outside[i];
      if (e.end <= begin || end <= e.begin) continue;
      const OutsideExtent above = {end, e.end};
      e = e.begin < begin ? OutsideExtent{e.begin, begin} : OutsideExtent{0, 0};
      if (above.begin < above.end) put(above);
    }
  }

  void clear() {
    for (uint32_t i = 0; i < size(); ++i) s_->outside[i] = {0, 0};
    s_->extents = 0;
  }

 private:
  void put(OutsideExtent e) {
    for (uint32_t i = 0; i < size(); ++i) {
      if (s_->outside[i].end != 0) continue;
      s_->outside[i] = e;
      return;
    }
    if (s_->extents < kMaxExtents)
      s_->outside[s_->extents++] = e;
    else
      s_->extents = kMaxExtents + 1;
  }

  PersistentState* const s_;
};

}  // namespace cropdl::seam
