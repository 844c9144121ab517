// Filling memory. Compiled twice (launches.cpp).
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

unsigned char byte_of(int value) { return static_cast<unsigned char>(value); }

// Complete planes follow each other in memory, so they are filled as rows of one plane.
template <class Fill>
CUresult fill_planes(const cudaPitchedPtr& where, const cudaExtent& extent, Fill&& fill) {
  size_t rows = 0, bytes = 0, end = 0;
  if (extent.depth <= 1) return fill(as_device(where.ptr), extent.height);
  if (extent.height > where.ysize || __builtin_mul_overflow(where.ysize, extent.depth, &rows) ||
      __builtin_mul_overflow(rows, where.pitch, &bytes) ||
      __builtin_add_overflow(as_device(where.ptr), bytes, &end))
    return CUDA_ERROR_INVALID_VALUE;
  if (extent.height == where.ysize) return fill(as_device(where.ptr), rows);
  for (size_t plane = 0; plane < extent.depth; plane++) {
    const CUresult result = fill(as_device(where.ptr) + plane * where.pitch * where.ysize, extent.height);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

bool is_empty(const cudaExtent& extent) { return !extent.width || !extent.height || !extent.depth; }

}  // namespace

extern "C" {

cudaError_t cudaMemset(void* pointer, int value, size_t count) {
  return run([&] { return cuMemsetD8(as_device(pointer), byte_of(value), count); });
}

cudaError_t cudaMemsetAsync(void* pointer, int value, size_t count, cudaStream_t stream) {
  return run([&] { return cuMemsetD8Async(as_device(pointer), byte_of(value), count, stream); });
}

cudaError_t cudaMemset2D(void* pointer, size_t pitch, int value, size_t width, size_t height) {
  return run([&] { return cuMemsetD2D8(as_device(pointer), pitch, byte_of(value), width, height); });
}

cudaError_t cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return run(
      [&] { return cuMemsetD2D8Async(as_device(pointer), pitch, byte_of(value), width, height, stream); });
}

cudaError_t cudaMemset3D(cudaPitchedPtr where, int value, cudaExtent extent) {
  return run([&] {
    if (is_empty(extent)) return nothing_to_do();
    return fill_planes(where, extent, [&](CUdeviceptr address, size_t rows) {
      return cuMemsetD2D8(address, where.pitch, byte_of(value), extent.width, rows);
    });
  });
}

cudaError_t cudaMemset3DAsync(cudaPitchedPtr where, int value, cudaExtent extent, cudaStream_t stream) {
  return run([&] {
    if (is_empty(extent)) return nothing_to_do();
    return fill_planes(where, extent, [&](CUdeviceptr address, size_t rows) {
      return cuMemsetD2D8Async(address, where.pitch, byte_of(value), extent.width, rows, stream);
    });
  });
}
}
