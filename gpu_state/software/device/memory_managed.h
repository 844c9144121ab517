// Advice about managed memory. Kept per allocation; a range is checked to lie within one. Any thread.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "gpu_state/software/device/allocation.h"

namespace cropdl::device {

// CUDA_ERROR_INVALID_VALUE: it is not managed memory. Device as the driver counts them, or CU_DEVICE_CPU.
CUresult advise(CUdeviceptr address, uint64_t size, CUmem_advise advice, int device);
CUresult check_managed(CUdeviceptr address, uint64_t size);
CUresult managed_facts(CUdeviceptr address, uint64_t size, Managed* facts);

}  // namespace cropdl::device
