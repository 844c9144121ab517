// Where the two sides of a test find each other's tables: at the end of the control page.
#pragma once

#include "interpose/seam/layout.h"

namespace one_abi_test {

inline void* const** slot(unsigned number) {
  static_assert(sizeof(cropdl::seam::ControlPage) + 4 * sizeof(void*) <= cropdl::seam::kControlPageSize);
  return reinterpret_cast<void* const**>(cropdl::seam::kControlPage + cropdl::seam::kControlPageSize) - 1 -
         number;
}

}  // namespace one_abi_test
