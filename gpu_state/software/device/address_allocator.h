// Chooses which pages of a range are allocated next. Programs must not rely on an order or on neighbours:
// each allocation begins some pages behind an earlier one, at one of several cursors that move through the
// range, so that freed addresses are not reused until the cursors have passed the whole range. With kLowest,
// takes the lowest free pages: an address then depends only on existing allocations, not on earlier ones (as
// modules' variables do on a real driver, as far as is known). Guarded by its owner.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "gpu_state/software/engine/memory_view.h"

namespace cropdl::device {

// A seed that means the lowest free pages; other seeds scatter allocations.
inline constexpr uint64_t kLowest = 0;

class AddressAllocator {
 public:
  AddressAllocator(engine::MemoryView::Range range, uint64_t seed);
  uint64_t take(uint64_t pages);  // address; 0: no room
  void give(uint64_t begin, uint64_t pages);

 private:
  uint64_t carve(std::map<uint64_t, uint64_t>::iterator hole, uint64_t from, uint64_t bytes);
  uint64_t random();

  std::map<uint64_t, uint64_t> holes_;  // begin, end
  std::array<uint64_t, 4> cursors_{};
  uint64_t range_begin_, state_;
  const bool lowest_;
};

}  // namespace cropdl::device
