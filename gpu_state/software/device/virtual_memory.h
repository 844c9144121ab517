// Virtual memory management: addresses that are reserved anywhere, physical memory, and mappings of one onto
// the other (CUDA Driver API, "Virtual Memory Management").
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cropdl::device {

// Whether the address lies in a reservation.
bool virtual_contains(uint64_t address);
// Whether some device may access all of these bytes by mappings: what copies ask.
bool virtual_allows(uint64_t address, uint64_t size, bool write);

}  // namespace cropdl::device
