// Advice on and prefetches of managed memory: recorded for each host page and returned by queries. No memory
// moves: managed memory is where the host and all devices reach it. Any thread. Source: CUDA Driver API,
// cuMemAdvise, cuMemPrefetchAsync, cuMemRangeGetAttribute.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cropdl::device {

// Devices by their ordinals, CU_DEVICE_CPU, or CU_DEVICE_INVALID for none.
struct Advice {
  bool read_mostly = false;
  int preferred = CU_DEVICE_INVALID;
  int prefetched = CU_DEVICE_INVALID;
  uint32_t accessed_by = 0;  // bit per device
  bool accessed_by_host = false;
  bool operator==(const Advice&) const = default;
};

// All return CUDA_ERROR_INVALID_VALUE if the range is not within one allocation of managed memory.
CUresult check_managed(CUdeviceptr address, uint64_t size);
CUresult advise(CUdeviceptr address, uint64_t size, CUmem_advise advice, int device);
CUresult record_prefetch(CUdeviceptr address, uint64_t size, int device);
// The advice that is common to all pages of the range; a value that differs between pages is returned as not
// advised.
CUresult advice_for(CUdeviceptr address, uint64_t size, Advice* advice);

// Call when the memory is released, with memory_lock() held.
void forget_advice(CUdeviceptr address, uint64_t size);

}  // namespace cropdl::device
