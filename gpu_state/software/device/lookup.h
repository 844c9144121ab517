// Finds allocations of all kinds. Any thread.
#pragma once

#include <optional>

#include "gpu_state/software/device/allocation.h"

namespace cropdl::device {

// The allocation that contains the address. It extends behind its last requested byte, but never into a
// neighbour. Takes memory_lock(). Does not find memory of kernels' malloc.
std::optional<Allocation> find_allocation(CUdeviceptr address);

}  // namespace cropdl::device
