// The device code in a host's object file, as nvcc -c writes it: fat binaries in the section .nv_fatbin, or
// in
// __nv_relfatbin with -rdc=true. Any thread; everything is checked against the size of what is given.
#pragma once

#include <cstddef>
#include <span>

#include "gpu_state/software/ptx/image.h"

namespace cropdl::device {

// Whether it begins as an ELF file for x86-64 does (a cubin is one too, but of another machine).
bool is_host_object(std::span<const std::byte> file);

// The PTX of all its fat binaries.
ptx::Texts texts_of_object(std::span<const std::byte> file, ptx::Capability capability);

}  // namespace cropdl::device
