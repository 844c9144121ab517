// The persistent heap's memory is mapped in steps: the first by the loader, more as the heap grows. Not all
// at once, since ulimit -v counts what is mapped, and strict overcommit what is writable.
#pragma once

#include <cstddef>

namespace cropdl::handles {

inline constexpr size_t kHeapStep = 64 << 20;

}  // namespace cropdl::handles
