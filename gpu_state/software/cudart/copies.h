// Converts the runtime's copies to the driver's. The direction that a caller states becomes a memory type for
// each side, which the driver checks. Sources: CUDA Runtime API 13.0, "Memory Management", "API
// synchronization behavior".
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace cropdl::cudart {

struct Sides {
  CUmemorytype source, destination;
};

// cudaErrorInvalidMemcpyDirection: not a direction.
cudaError_t sides_of(cudaMemcpyKind kind, Sides* sides);

// Bytes per element of the array; extents of copies with arrays are counted in elements.
CUresult element_bytes(CUarray array, size_t* bytes);

// Converts the whole structure; cudaErrorInvalidPitchValue, cudaErrorInvalidValue.
cudaError_t as_copy(const cudaMemcpy3DParms& parms, CUDA_MEMCPY3D* copy);
cudaError_t as_peer_copy(const cudaMemcpy3DPeerParms& parms, CUDA_MEMCPY3D_PEER* copy);

// Rows of linear memory.
cudaError_t as_copy(void* destination, size_t destination_pitch, const void* source, size_t source_pitch,
                    size_t width, size_t height, cudaMemcpyKind kind, CUDA_MEMCPY2D* copy);

// Rows to and from an array; offsets in bytes and rows.
struct ArrayPlace {
  CUarray array;
  size_t x, y;
};
cudaError_t as_copy(ArrayPlace destination, const void* source, size_t pitch, size_t width, size_t height,
                    cudaMemcpyKind kind, CUDA_MEMCPY2D* copy);
cudaError_t as_copy(void* destination, size_t pitch, ArrayPlace source, size_t width, size_t height,
                    cudaMemcpyKind kind, CUDA_MEMCPY2D* copy);

// A part of a variable: checks that it lies inside, and that the direction goes to it (or comes from it).
cudaError_t part_of_variable(const void* symbol, size_t offset, size_t count, cudaMemcpyKind kind, bool to,
                             CUdeviceptr* address);

inline CUarray as_array(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array));
}

}  // namespace cropdl::cudart
