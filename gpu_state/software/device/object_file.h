// Finds the device code in a host object file from nvcc -c: fat binaries in the section .nv_fatbin, or in
// __nv_relfatbin with -rdc=true. Any thread; checks everything against the size of the input.
#pragma once

#include <cstddef>
#include <span>

#include "gpu_state/software/ptx/image.h"

namespace cropdl::device {

// Whether it is an ELF file for x86-64 (a cubin is an ELF file for another machine).
bool is_host_object(std::span<const std::byte> file);

// The PTX of all its fat binaries.
ptx::Texts texts_of_object(std::span<const std::byte> file, ptx::Capability capability);

}  // namespace cropdl::device
