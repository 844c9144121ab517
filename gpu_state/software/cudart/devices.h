// The calling thread's device, as the functions of device management change it (runtime.cpp). After start().
#pragma once

#include <cuda_runtime_api.h>

namespace cropdl::cudart {

// Makes it the thread's, and its primary context current.
cudaError_t choose_device(int device);

// Which are tried, in that order, while nobody has chosen one; none: device 0.
void prefer_devices(const int* devices, int count);

// Takes its primary context down, with all that is in it. The next call that needs one makes a new one.
cudaError_t reset_device(int device);

}  // namespace cropdl::cudart
