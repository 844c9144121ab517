// The loader maps the heap's first step, the heap the others as it grows: ulimit -v counts mapped memory, and
// strict overcommit counts writable memory.
#pragma once

#include <cstddef>

namespace cropdl::handles {

inline constexpr size_t kHeapStep = 64 << 20;

}  // namespace cropdl::handles
