// CUDA arrays: rows of memory that only copies may touch here (textures and surfaces are not built).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cropdl::device {

// Where an array's rows are: address, bytes per row, rows per slice. CUDA_ERROR_INVALID_HANDLE.
CUresult array_rows(CUarray array, uint64_t* base, uint64_t* pitch, uint64_t* height);

}  // namespace cropdl::device
