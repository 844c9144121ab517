// Where device memory lies. All below the window (interpose/seam/layout.h) and far from where the system
// places mappings (below 0x7fff_ffff_ffff, downwards), so that a restarted process finds the same addresses
// free.
#pragma once

#include <cstdint>

#include "interpose/seam/layout.h"

namespace cropdl::memory {

constexpr int kDevices = 16;

// What a driver reserves for itself, if it lets itself be steered (steering.h).
constexpr uint64_t kDriverBegin = 0x1000'0000'0000, kDriverLeast = uint64_t{64} << 30;

// Managed memory: regions of the driver's, steered there (steering.h).
constexpr uint64_t kManagedBegin = 0x2000'0000'0000, kManagedEnd = 0x2800'0000'0000;

// Stand for a device's variables in images: nothing lies there (variables.h).
constexpr uint64_t kVariablesBegin = 0x2800'0000'0000, kVariablesEnd = 0x2c00'0000'0000;

// Stand for what programs make themselves (OwnPhysical): mapped there while its contents are saved or loaded.
constexpr uint64_t kOwnContentsBegin = 0x2c00'0000'0000, kOwnContentsEnd = 0x3000'0000'0000;

// The arena: one slice of addresses for each device; several times what any device has, so that what is freed
// piecemeal leaves room for large blocks.
constexpr uint64_t kArenaBegin = 0x3000'0000'0000, kArenaSlice = 0x80'0000'0000;
static_assert(kArenaBegin + kDevices * kArenaSlice <= 0x4000'0000'0000);

// What the driver hands out memory in (cuMemGetAllocationGranularity on all devices since compute capability
// 6.0; asked and compared when the arena is reserved).
constexpr uint64_t kGranularity = uint64_t{2} << 20;

// Blocks of device memory begin and end at multiples of this: the driver promises 256, and rounds to 512.
constexpr uint64_t kBlockUnit = 512;
constexpr uint64_t kHostPage = 4096;  // that of managed memory: advice is by pages

// What programs reserve themselves.
constexpr uint64_t kOwnBegin = 0x3800'0000'0000, kOwnEnd = 0x4000'0000'0000;
static_assert(kArenaBegin + kDevices * kArenaSlice <= kOwnBegin);

constexpr bool overlap(uint64_t begin, uint64_t size, uint64_t from, uint64_t to) {
  return begin < to && (size > from || begin > from - size);
}

// Whether some of it is where only this folder has memory mapped (what the driver reserved for itself it
// guards itself): no place for the program's own mappings.
constexpr bool is_placed(uint64_t begin, uint64_t size) {
  return overlap(begin, size, kManagedBegin, kOwnBegin);
}

// ... or where the program's memory of the host lies, which images save as such.
constexpr bool is_the_hosts(uint64_t begin, uint64_t size) {
  return overlap(begin, size, 0, seam::kLowEnd) || overlap(begin, size, seam::kWindowBegin, seam::kWindowEnd);
}

constexpr uint64_t rounded_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace cropdl::memory
