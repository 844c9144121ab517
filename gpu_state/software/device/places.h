// Which pages of a range of addresses are handed out next. Programs must not count on an order or on
// neighbours: each piece begins some pages behind another one, from one of several places that move on
// through the range, so that freed addresses rest until it has been gone through. Guarded by its owner.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "gpu_state/software/engine/memory_view.h"

namespace cropdl::device {

class Places {
 public:
  Places(engine::MemoryView::Range range, uint64_t random);
  uint64_t take(uint64_t pages);  // address; 0: there is no room
  void give(uint64_t begin, uint64_t pages);

 private:
  uint64_t carve(std::map<uint64_t, uint64_t>::iterator hole, uint64_t from, uint64_t bytes);
  uint64_t random();

  std::map<uint64_t, uint64_t> holes_;  // begin, end
  std::array<uint64_t, 4> cursors_{};
  uint64_t range_begin_, state_;
};

}  // namespace cropdl::device
