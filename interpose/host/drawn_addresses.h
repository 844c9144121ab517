// Addresses that the kernel draws anew for each program, so that nobody can know them beforehand (ASLR), are
// drawn by us for a program in the window. Only when it starts: a restart has them from the image. LH, START.
#pragma once

#include <cstdint>

namespace cropdl::host {

// How far from where they could begin first, at most. Together less than half of the mapping area.
inline constexpr uint64_t kProgramSpread = 1ull << 40, kLoaderSpread = 1ull << 40, kStackSpread = 1ull << 40,
                          kMappingsSpread = 1ull << 40;

// A multiple of `unit` below `spread`; 0 if this process's addresses are not to be drawn (man 2 personality,
// ADDR_NO_RANDOMIZE; man 5 proc, randomize_va_space).
uint64_t drawn(uint64_t spread, uint64_t unit = 4096);

}  // namespace cropdl::host
