// Advice about managed memory, and queries of it. Source: CUDA Runtime API 13.0, "Memory Management".
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

extern "C" {

cudaError_t cudaMemAdvise(const void* pointer, size_t count, cudaMemoryAdvise advice,
                          cudaMemLocation location) {
  return run([&] {
    return cuMemAdvise(as_device(pointer), count, static_cast<CUmem_advise>(advice),
                       *same<CUmemLocation>(&location));
  });
}

cudaError_t cudaMemRangeGetAttribute(void* data, size_t size, cudaMemRangeAttribute attribute,
                                     const void* pointer, size_t count) {
  return run([&] {
    return cuMemRangeGetAttribute(data, size, static_cast<CUmem_range_attribute>(attribute),
                                  as_device(pointer), count);
  });
}

cudaError_t cudaMemRangeGetAttributes(void** data, size_t* sizes, cudaMemRangeAttribute* attributes,
                                      size_t attribute_count, const void* pointer, size_t count) {
  return run([&] {
    return cuMemRangeGetAttributes(data, sizes, reinterpret_cast<CUmem_range_attribute*>(attributes),
                                   attribute_count, as_device(pointer), count);
  });
}
}
