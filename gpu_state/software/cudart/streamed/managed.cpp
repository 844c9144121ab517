// Prefetches of managed memory, in stream order. Compiled twice (launches.cpp).
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

CUdeviceptr* as_addresses(void** pointers) { return reinterpret_cast<CUdeviceptr*>(pointers); }

}  // namespace

extern "C" {

cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t count, cudaMemLocation location, unsigned flags,
                                 cudaStream_t stream) {
  return run([&] {
    return cuMemPrefetchAsync(as_device(pointer), count, *same<CUmemLocation>(&location), flags, stream);
  });
}

cudaError_t cudaMemPrefetchBatchAsync(void** pointers, size_t* sizes, size_t count,
                                      cudaMemLocation* locations, size_t* indices, size_t location_count,
                                      unsigned long long flags, cudaStream_t stream) {
  return run([&] {
    return cuMemPrefetchBatchAsync(as_addresses(pointers), sizes, count, same<CUmemLocation>(locations),
                                   indices, location_count, flags, stream);
  });
}

cudaError_t cudaMemDiscardBatchAsync(void** pointers, size_t* sizes, size_t count, unsigned long long flags,
                                     cudaStream_t stream) {
  return run([&] { return cuMemDiscardBatchAsync(as_addresses(pointers), sizes, count, flags, stream); });
}

cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void** pointers, size_t* sizes, size_t count,
                                                cudaMemLocation* locations, size_t* indices,
                                                size_t location_count, unsigned long long flags,
                                                cudaStream_t stream) {
  return run([&] {
    return cuMemDiscardAndPrefetchBatchAsync(as_addresses(pointers), sizes, count,
                                             same<CUmemLocation>(locations), indices, location_count, flags,
                                             stream);
  });
}
}
