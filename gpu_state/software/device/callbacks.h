// Functions of the host that streams call: on one thread of the device's own, one at a time, while the stream
// waits for it. Sources: CUDA Driver API, cuLaunchHostFunc, cuStreamAddCallback.
#pragma once

#include <cuda.h>

#include <functional>

namespace cropdl::device {

// Runs it on the thread of that context's device and waits for its end. On a stream's or graph's thread.
void call_back(CUcontext context, const std::function<void()>& function);

// Whether the calling thread is inside such a function: then every call of the API answers
// CUDA_ERROR_NOT_PERMITTED.
bool inside_callback();

}  // namespace cropdl::device
