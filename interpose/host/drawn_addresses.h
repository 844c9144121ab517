// Address space randomization (ASLR) for a program in the window: CropDL draws the addresses that the kernel
// would draw. Only at a program's start; a restart takes them from the image. LH, START.
#pragma once

#include <cstdint>

namespace cropdl::host {

// The largest distance of each from its lowest possible address; together less than half of the mapping area.
inline constexpr uint64_t kProgramSpread = 1ull << 40, kLoaderSpread = 1ull << 40, kStackSpread = 1ull << 40,
                          kMappingsSpread = 1ull << 40;

// Returns a random multiple of `unit` below `spread`; 0 if randomization is off for this process (man 2
// personality, ADDR_NO_RANDOMIZE; man 5 proc, randomize_va_space).
uint64_t drawn(uint64_t spread, uint64_t unit = 4096);

}  // namespace cropdl::host
