// The registers of the running warp, for the functions in the table.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu_state/software/engine/instruction.h"

namespace cropdl::engine {

class Warp {
 public:
  template <class T>
  T* lanes(Place place) {
    return reinterpret_cast<T*>((place >= 0 ? frame : constants) + place);
  }
  uint32_t& predicate(Place place) { return *lanes<uint32_t>(place); }

  std::byte* frame = nullptr;      // registers of the active lanes' function
  std::byte* constants = nullptr;  // one past the program's constants, whose places are negative
};

}  // namespace cropdl::engine
