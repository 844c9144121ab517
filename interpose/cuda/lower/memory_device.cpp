// cudaMalloc, cuMemAlloc, cublasAlloc (of cuBLAS's interface without handles) and the functions that free
// their memory: blocks of the arena. Sources: CUDA Runtime
// API and Driver API 13.0, "Memory Management". LH, LH FS base, a thread of the program.
#if __has_include(<cublas.h>)
#include <cublas.h>
#endif

#include "interpose/cuda/lower/memory.h"

using namespace cropdl::cuda;
using cropdl::memory::Block;
using cropdl::memory::BlockKind;

namespace {

CUresult allocate_on_device(int device, size_t size, CUdeviceptr* address) {
  DeviceMemory* its = device_memory();
  if (!its) return CUDA_ERROR_OUT_OF_MEMORY;
  if (const CUresult error = verdict_of_driver(device)) return error;
  Block* block = nullptr;
  const CUresult error =
      with_room(device, [&] { return its->arena.allocate(device, size, BlockKind::kDevice, &block); });
  if (error == CUDA_SUCCESS) *address = block->begin;
  return error;
}

// Frees a block of the arena. CUDA_ERROR_INVALID_VALUE: no block begins there.
CUresult free_on_device(int device, CUdeviceptr address) {
  if (const CUresult error = verdict_of_driver(device)) return error;
  DeviceMemory* its = device_memory();
  if (!its) return CUDA_ERROR_INVALID_VALUE;
  const auto find = [&] {
    std::lock_guard lock(its->blocks.lock());
    return its->blocks.at(address);
  };
  const Block* block = find();
  if (!block && cropdl::memory::is_placed(address, 1)) return CUDA_ERROR_INVALID_VALUE;
  if (!block) return CROPDL_DRIVER(cuMemFree_v2)(address);  // a graph's block, or invalid
  const uint64_t id = block->id;
  const bool managed = block->kind == BlockKind::kManaged;
  // Wait without the lock: other threads allocate meanwhile.
  if (const CUresult error = wait_for_device(managed ? -1 : block->device)) return error;
  std::lock_guard lock(its->blocks.lock());
  Block* still = its->blocks.at(address);
  if (!still || still->id != id) return CUDA_ERROR_INVALID_VALUE;  // two threads freed it
  if (managed)
    its->managed.release(still);
  else
    its->pools.release(still);
  return CUDA_SUCCESS;
}

// The driver's row alignment on all devices (CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT).
constexpr size_t kPitch = 512;

CUresult allocate_rows(int device, size_t width, size_t rows, CUdeviceptr* address, size_t* pitch) {
  size_t rounded = 0, size = 0;
  if (__builtin_add_overflow(width, kPitch - 1, &rounded)) return CUDA_ERROR_INVALID_VALUE;
  rounded = rounded / kPitch * kPitch;
  if (__builtin_mul_overflow(rounded, rows, &size)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult error = allocate_on_device(device, size, address);
  if (error == CUDA_SUCCESS) *pitch = rounded;
  return error;
}

// The runtime accepts a size of 0 and returns null.
CUresult runtime_rows(int device, void** p, size_t* pitch, size_t width, size_t rows) {
  *pitch = 0;
  *p = nullptr;
  if (width == 0 || rows == 0) return CUDA_SUCCESS;
  CUdeviceptr address = 0;
  const CUresult error = allocate_rows(device, width, rows, &address, pitch);
  *p = reinterpret_cast<void*>(address);
  return error;
}

// To the program, unused memory of the arena is free memory, and so is memory that its streams have freed.
template <class Ask>
CUresult info(int device, size_t* free, Ask ask) {
  DeviceMemory* its = known_device_memory();
  if (its) its->pools.collect();
  const CUresult error = ask();
  if (error == CUDA_SUCCESS && its && free) *free += its->arena.unused(device);
  return error;
}

}  // namespace

extern "C" {

cudaError_t lower_cudaMalloc(void** p, size_t size) {
  return allocate_in_runtime(p, [&](int device, CUdeviceptr* address) {
    return size ? allocate_on_device(device, size, address) : CUDA_SUCCESS;
  });
}

cudaError_t lower_cudaMallocPitch(void** p, size_t* pitch, size_t width, size_t height) {
  return in_runtime([&](int device) { return runtime_rows(device, p, pitch, width, height); }, p && pitch);
}

cudaError_t lower_cudaMalloc3D(cudaPitchedPtr* pitched, cudaExtent extent) {
  size_t rows = 0;
  if (!pitched) return of_runtime(CUDA_ERROR_INVALID_VALUE);
  if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return of_runtime(CUDA_ERROR_OUT_OF_MEMORY);
  *pitched = {nullptr, 0, extent.width, extent.height};
  return in_runtime(
      [&](int device) { return runtime_rows(device, &pitched->ptr, &pitched->pitch, extent.width, rows); });
}

cudaError_t lower_cudaFree(void* p) {
  return in_runtime([&](int device) { return p ? free_on_device(device, address_of(p)) : CUDA_SUCCESS; });
}

cudaError_t lower_cudaMemGetInfo(size_t* free, size_t* total) {
  return in_runtime([&](int device) {
    return info(device, free,
                [&] { return static_cast<CUresult>(CROPDL_CUDART(cudaMemGetInfo)(free, total)); });
  });
}

CUresult lower_cuMemAlloc_v2(CUdeviceptr* address, size_t size) {
  return in_driver([&](int device) {
    return !address || size == 0 ? CUDA_ERROR_INVALID_VALUE : allocate_on_device(device, size, address);
  });
}

CUresult lower_cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                                  unsigned element) {
  return in_driver([&](int device) {
    if (!address || !pitch || width == 0 || height == 0 || (element != 4 && element != 8 && element != 16))
      return CUDA_ERROR_INVALID_VALUE;
    return allocate_rows(device, width, height, address, pitch);
  });
}

CUresult lower_cuMemFree_v2(CUdeviceptr address) {
  return in_driver([&](int device) { return free_on_device(device, address); });
}

CUresult lower_cuMemGetInfo_v2(size_t* free, size_t* total) {
  return in_driver([&](int device) {
    return info(device, free, [&] { return CROPDL_DRIVER(cuMemGetInfo_v2)(free, total); });
  });
}

#if __has_include(<cublas.h>)
cublasStatus_t lower_cublasAlloc(int n, int size, void** pointer) {
  if (n <= 0 || size <= 0 || !pointer) return CUBLAS_STATUS_INVALID_VALUE;
  const size_t bytes = static_cast<size_t>(n) * static_cast<size_t>(size);
  return lower_cudaMalloc(pointer, bytes) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
cublasStatus_t lower_cublasFree(void* pointer) {
  return lower_cudaFree(pointer) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INTERNAL_ERROR;
}
#endif

}  // extern "C"
