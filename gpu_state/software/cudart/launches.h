// A kernel's launch as the runtime's functions ask for it, in the driver's words.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace cropdl::cudart {

// What the driver calls an invalid value the runtime calls an invalid configuration when it is the grid's or
// the block's size that no launch on this device can have.
cudaError_t launch_error(CUresult result, const dim3& grid, const dim3& block);

// The launch attributes are the same structures.
CUlaunchConfig as_config(const cudaLaunchConfig_t& config);

}  // namespace cropdl::cudart
