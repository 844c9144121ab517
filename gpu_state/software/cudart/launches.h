// Converts the runtime's kernel launches to the driver's.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace cropdl::cudart {

// The runtime's error for the driver's. An invalid value becomes an invalid configuration if no launch on
// this device can have that grid or block size.
cudaError_t launch_error(CUresult result, const dim3& grid, const dim3& block);

// Launch attributes have the same structure in both APIs.
CUlaunchConfig as_config(const cudaLaunchConfig_t& config);

}  // namespace cropdl::cudart
