// The calling thread's device, as the functions of device management change it (runtime.cpp). After start().
#pragma once

#include <cuda_runtime_api.h>

namespace cropdl::cudart {

// Makes it the thread's, and its primary context current.
cudaError_t choose_device(int device);

// It is the thread's while nobody has chosen one.
void prefer_device(int device);

// Takes its primary context down, with all that is in it. The next call that needs one makes a new one.
cudaError_t reset_device(int device);

}  // namespace cropdl::cudart
