// Attributes and settings of functions, common to cuFunc… and cuKernel….
#pragma once

#include <cuda.h>

#include "gpu_state/software/device/module.h"

namespace cropdl::driver {

// `kernel_settings`: used where `settings` has nothing; may be null.
CUresult get_attribute(int* value, CUfunction_attribute which, const engine::KernelFacts& facts,
                       const device::FunctionSettings& settings,
                       const device::FunctionSettings* kernel_settings);
CUresult set_attribute(CUfunction_attribute which, int value, const engine::KernelFacts& facts,
                       device::FunctionSettings& settings);
CUresult set_cache(CUfunc_cache config, device::FunctionSettings& settings);
// CUDA_ERROR_INVALID_VALUE beyond the last parameter; `size` may be null.
CUresult parameter(const engine::KernelFacts& facts, size_t index, size_t* offset, size_t* size);

}  // namespace cropdl::driver
