#include "gpu_state/software/engine/memory_view.h"

namespace cropdl::engine {

bool MemoryView::range(uint64_t address, size_t size, bool write) const {
  while (size) {
    // Up to the end of one granule of the shadow.
    size_t step = 8 - (address & 7);
    if (step > size) step = size;
    bool inside =
        (address - own.begin < own.end - own.begin) || (address - common.begin < common.end - common.begin);
    if (!inside) return elsewhere && elsewhere(owner, address, size, write);
    if (shadow[(address - area) >> 3] < (address & 7) + step) return false;
    address += step;
    size -= step;
  }
  return true;
}

}  // namespace cropdl::engine
