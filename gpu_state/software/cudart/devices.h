// The calling thread's device, as changed by device management (runtime.cpp). After start().
#pragma once

#include <cuda_runtime_api.h>

namespace cropdl::cudart {

// Makes it the thread's device, and its primary context current.
cudaError_t choose_device(int device);

// Makes it the thread's device until one is chosen.
void prefer_device(int device);

// Destroys its primary context with everything in it. The next call that needs one makes a new one.
cudaError_t reset_device(int device);

}  // namespace cropdl::cudart
