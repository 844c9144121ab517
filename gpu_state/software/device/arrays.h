// CUDA arrays: rows of memory that only copies reach here, since textures and surfaces are not built. Any
// thread. Sources: CUDA Driver API, cuArray3DCreate; the limits are those of compute capability 7.5 and later
// (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cropdl::device {

class Memory;

// CUDA_ERROR_INVALID_VALUE for shapes that there are not, CUDA_ERROR_NOT_SUPPORTED (said once) for formats
// and flags that are not built.
CUresult create_array(Memory& memory, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, CUcontext context,
                      CUarray* array);
// In all of these CUDA_ERROR_INVALID_HANDLE for one that does not live. Whoever destroys has waited.
CUresult destroy_array(CUarray array);
CUresult describe_array(CUarray array, CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUcontext* context);
void destroy_arrays(CUcontext context);

struct ArrayRows {
  uint64_t base = 0;   // address
  uint64_t pitch = 0;  // bytes from row to row: those of a row
  uint64_t height = 1, depth = 1;
};
CUresult array_rows(CUarray array, ArrayRows* rows);

}  // namespace cropdl::device
