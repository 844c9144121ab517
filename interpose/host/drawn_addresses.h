// Address space randomization (ASLR) for a program in the window: CropDL draws the addresses that the kernel
// would draw. Only at a program's start; a restart takes them from the image. LH, START.
#pragma once

#include <sys/personality.h>

#include <cstdint>

#include "base/file.h"
#include "base/random.h"
#include "interpose/seam/layout.h"

namespace cropdl::host {

// The largest distance of program, loader, stack and mappings, each from its lowest possible address.
inline constexpr uint64_t kSpread = 1ull << 40;
static_assert(4 * kSpread < (seam::kMapEnd - seam::kMapBegin) / 2);

// Returns a random multiple of `unit` below `spread`; 0 if randomization is off for this process (man 2
// personality, ADDR_NO_RANDOMIZE; man 5 proc, randomize_va_space).
inline uint64_t drawn(uint64_t spread, uint64_t unit = 4096) {
  static const bool wanted =
      (personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0 &&  // 0xffffffff: only reads it
      !kernel_text("/proc/sys/kernel/randomize_va_space").starts_with('0');
  return wanted ? random_number(spread / unit) * unit : 0;
}

}  // namespace cropdl::host
