// CUDA arrays: rows of memory that only copies access, since textures and surfaces are not implemented. Any
// thread. Sources: CUDA Driver API, cuArray3DCreate; the limits are those of compute capability 7.5 and later
// (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cropdl::device {

class Memory;

// CUDA_ERROR_INVALID_VALUE for invalid shapes, CUDA_ERROR_NOT_SUPPORTED (with one message) for formats and
// flags that are not implemented.
CUresult create_array(Memory& memory, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, CUcontext context,
                      CUarray* array);
// All return CUDA_ERROR_INVALID_HANDLE for an array that does not exist. Callers that destroy an array have
// waited for its work.
CUresult destroy_array(CUarray array);
CUresult describe_array(CUarray array, CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUcontext* context);
void destroy_arrays(CUcontext context);

struct ArrayRows {
  uint64_t base = 0;   // address
  uint64_t pitch = 0;  // bytes from row to row: the size of a row
  uint64_t height = 1, depth = 1;
};
CUresult array_rows(CUarray array, ArrayRows* rows);

}  // namespace cropdl::device
