// What was advised about managed memory, and where it was prefetched to: kept for each page of the host's,
// and told again. Nothing moves: all managed memory lies where both sides reach it. Any thread. Source: CUDA
// Driver API, cuMemAdvise, cuMemPrefetchAsync, cuMemRangeGetAttribute.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cropdl::device {

// Devices as the driver counts them, CU_DEVICE_CPU, or CU_DEVICE_INVALID: none.
struct Advice {
  bool read_mostly = false;
  int preferred = CU_DEVICE_INVALID;
  int prefetched = CU_DEVICE_INVALID;
  uint32_t accessed_by = 0;  // bit per device
  bool accessed_by_host = false;
  bool operator==(const Advice&) const = default;
};

// CUDA_ERROR_INVALID_VALUE, in all of these: it is not managed memory, one allocation's.
CUresult check_managed(CUdeviceptr address, uint64_t size);
CUresult advise(CUdeviceptr address, uint64_t size, CUmem_advise advice, int device);
CUresult record_prefetch(CUdeviceptr address, uint64_t size, int device);
// What holds for all pages of the range: where they differ, that which nobody advised.
CUresult advice_for(CUdeviceptr address, uint64_t size, Advice* advice);

// With memory_lock() held: the memory goes.
void forget_advice(CUdeviceptr address, uint64_t size);

}  // namespace cropdl::device
