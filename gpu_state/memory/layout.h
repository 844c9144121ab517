// The address ranges of device memory: below the window (interpose/seam/layout.h) and far from where the
// kernel places mappings (downwards from 0x7fff_ffff_ffff), so that they are free in a restarted process.
#pragma once

#include <cstdint>

#include "interpose/seam/layout.h"

namespace cropdl::memory {

constexpr int kDevices = 16;

// The driver's own reservation, if the driver can be steered (steering.h): its address and least size.
constexpr uint64_t kDriverBegin = 0x1000'0000'0000, kDriverLeast = uint64_t{64} << 30;

// Managed memory: regions that the driver allocates, steered into this range (steering.h).
constexpr uint64_t kManagedBegin = 0x2000'0000'0000, kManagedEnd = 0x2800'0000'0000;

// The addresses that a device's variables have in images. Nothing is mapped there (contents.h).
constexpr uint64_t kVariablesBegin = 0x2800'0000'0000, kVariablesEnd = 0x2c00'0000'0000;

// The addresses of OwnPhysical memory in images. It is mapped there only while it is saved or loaded.
constexpr uint64_t kOwnContentsBegin = 0x2c00'0000'0000, kOwnContentsEnd = 0x3000'0000'0000;

// The arena: a slice for each device, several times its memory: room for large blocks despite fragmentation.
constexpr uint64_t kArenaBegin = 0x3000'0000'0000, kArenaSlice = 0x80'0000'0000;

// The driver's allocation granularity: the value of cuMemGetAllocationGranularity on all devices since
// compute capability 6.0. Arena::reserve() compares it with the driver's answer.
constexpr uint64_t kGranularity = uint64_t{2} << 20;

// Blocks of device memory begin and end at multiples of this. The driver guarantees 256 and rounds to 512.
constexpr uint64_t kBlockUnit = 512;

// Address ranges that the program reserves (cuMemAddressReserve).
constexpr uint64_t kOwnBegin = 0x3800'0000'0000, kOwnEnd = 0x4000'0000'0000;
static_assert(kArenaBegin + kDevices * kArenaSlice <= kOwnBegin);

constexpr bool overlap(uint64_t begin, uint64_t size, uint64_t from, uint64_t to) {
  return begin < to && (size > from || begin > from - size);
}

// Whether the range overlaps addresses where only this folder maps memory. The program's own mappings are
// refused there. The driver's own reservation is not included: the driver protects that itself.
constexpr bool is_placed(uint64_t begin, uint64_t size) {
  return overlap(begin, size, kManagedBegin, kOwnBegin);
}

// Whether the range overlaps the program's host memory, which images save as host memory.
constexpr bool is_the_hosts(uint64_t begin, uint64_t size) {
  return overlap(begin, size, 0, seam::kLowEnd) || overlap(begin, size, seam::kWindowBegin, seam::kWindowEnd);
}

constexpr uint64_t rounded_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace cropdl::memory
