// Host functions that streams call: one at a time, on one thread per device, while the stream waits. Sources:
// CUDA Driver API, cuLaunchHostFunc, cuStreamAddCallback.
#pragma once

#include <cuda.h>

#include <functional>

namespace cropdl::device {

// Runs `function` on the callback thread of the context's device and waits for its end. On a stream's or
// graph's thread.
void call_back(CUcontext context, const std::function<void()>& function);

// Whether the calling thread runs such a function: then every API call returns CUDA_ERROR_NOT_PERMITTED.
bool inside_callback();

}  // namespace cropdl::device
