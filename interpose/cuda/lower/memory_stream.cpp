// Stream-ordered memory: blocks of the arena, from its side of a pool. Memory in a captured stream belongs to
// the graph, which no image contains. Sources: CUDA Runtime API and Driver API 13.0, "Stream Ordered Memory
// Allocator". LH, LH FS base, a thread of the program.
#include "interpose/cuda/lower/memory.h"

using namespace cropdl::cuda;
using cropdl::memory::Block;
using cropdl::memory::BlockKind;
using cropdl::memory::Pool;

namespace {

bool is_captured(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CROPDL_DRIVER(cuStreamIsCapturing)(stream, &status) == CUDA_SUCCESS &&
         status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

// `real`: null for the current pool of the stream's device.
CUresult allocate_in_stream(CUdeviceptr* address, size_t size, CUmemoryPool real, CUstream stream) {
  if (!address || size == 0) return CUDA_ERROR_INVALID_VALUE;
  DeviceMemory* its = device_memory();
  if (!its) return CUDA_ERROR_OUT_OF_MEMORY;
  if (is_captured(stream)) {
    rt::mark_unsaved(kDriver, driver::kFn_cuMemAllocAsync, "memory is allocated by a graph");
    return real ? CROPDL_DRIVER(cuMemAllocFromPoolAsync)(address, size, real, stream)
                : CROPDL_DRIVER(cuMemAllocAsync)(address, size, stream);
  }
  int device = 0;
  if (const CUresult error = CROPDL_DRIVER(cuStreamGetDevice)(stream, &device)) return error;
  if (!real)
    if (const CUresult error = CROPDL_DRIVER(cuDeviceGetMemPool)(&real, device)) return error;
  Pool* pool = arenas_side(*its, real);
  if (!pool) {
    const CUresult error = CROPDL_DRIVER(cuMemAllocFromPoolAsync)(address, size, real, stream);
    if (error == CUDA_SUCCESS)
      rt::mark_unsaved(kDriver, driver::kFn_cuMemAllocFromPoolAsync,
                       "memory comes from a pool of the host's, of managed memory or of another process");
    return error;
  }
  Block* block = nullptr;
  const CUresult error = its->pools.allocate(pool, size, stream, &block);
  if (error == CUDA_SUCCESS) *address = block->begin;
  return error;
}

CUresult free_in_stream(CUdeviceptr address, CUstream stream) {
  DeviceMemory* its = device_memory();
  if (!its) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(its->blocks.lock());
  Block* block = its->blocks.at(address);
  const bool captured = is_captured(stream);
  if (!block && !its->blocks.around(address))
    return CROPDL_DRIVER(cuMemFreeAsync)(address, stream);  // a graph's
  if (!block || captured || block->kind == BlockKind::kManaged) return CUDA_ERROR_INVALID_VALUE;
  return its->pools.free(block, stream);
}

// `handle`: the program's pool, null for the current one.
cudaError_t runtime_allocate(void** p, size_t size, CUmemoryPool handle, CUstream stream) {
  return allocate_in_runtime(p, [&](int, CUdeviceptr* address) {
    return allocate_in_stream(address, size, real_pool(handle), real_stream(stream));
  });
}

}  // namespace

extern "C" {

// Each function, and its variant in which stream 0 is the calling thread's own default stream.
#define STREAM_ORDERED(suffix, own)                                                                    \
  cudaError_t lower_cudaMallocAsync##suffix(void** p, size_t size, cudaStream_t stream) {              \
    return runtime_allocate(p, size, nullptr, own(stream));                                            \
  }                                                                                                    \
  cudaError_t lower_cudaMallocFromPoolAsync##suffix(void** p, size_t size, cudaMemPool_t pool,         \
                                                    cudaStream_t stream) {                             \
    return runtime_allocate(pool ? p : nullptr, size, pool, own(stream));                              \
  }                                                                                                    \
  cudaError_t lower_cudaFreeAsync##suffix(void* p, cudaStream_t stream) {                              \
    return in_runtime([&](int) { return free_in_stream(address_of(p), real_stream(own(stream))); });   \
  }                                                                                                    \
  CUresult lower_cuMemAllocAsync##suffix(CUdeviceptr* address, size_t size, CUstream stream) {         \
    rt::Call call;                                                                                     \
    return allocate_in_stream(address, size, nullptr, real_stream(own(stream)));                       \
  }                                                                                                    \
  CUresult lower_cuMemAllocFromPoolAsync##suffix(CUdeviceptr* address, size_t size, CUmemoryPool pool, \
                                                 CUstream stream) {                                    \
    rt::Call call;                                                                                     \
    return pool ? allocate_in_stream(address, size, real_pool(pool), real_stream(own(stream)))         \
                : CUDA_ERROR_INVALID_VALUE;                                                            \
  }                                                                                                    \
  CUresult lower_cuMemFreeAsync##suffix(CUdeviceptr address, CUstream stream) {                        \
    rt::Call call;                                                                                     \
    return free_in_stream(address, real_stream(own(stream)));                                          \
  }
STREAM_ORDERED(, )
STREAM_ORDERED(_ptsz, own_stream)
#undef STREAM_ORDERED

}  // extern "C"
