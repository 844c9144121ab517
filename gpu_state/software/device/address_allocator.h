// Which pages of a range of addresses are handed out next. Programs must not count on an order or on
// neighbours: each piece begins some pages behind another one, from one of several places that move on
// through the range, so that freed addresses rest until it has been gone through. Or, in kLowest order, the
// lowest that are free: then a piece lies where it does because of those that are there, and not of those
// that were (modules' variables, as far as is known of a real driver's). Guarded by its owner.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "gpu_state/software/engine/memory_view.h"

namespace cropdl::device {

// A seed scatters.
inline constexpr uint64_t kLowest = 0;

class AddressAllocator {
 public:
  AddressAllocator(engine::MemoryView::Range range, uint64_t seed);
  uint64_t take(uint64_t pages);  // address; 0: there is no room
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
