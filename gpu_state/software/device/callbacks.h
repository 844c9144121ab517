// Host functions that streams call: one at a time, on one thread per device, while the stream waits. Sources:
// CUDA Driver API, cuLaunchHostFunc, cuStreamAddCallback.
#pragma once

#include <functional>

namespace cropdl::device {

class Device;

// Runs `function` on the device's callback thread and waits for its end. On a stream's or graph's thread.
void call_back(Device* device, const std::function<void()>& function);

// Whether the calling thread runs such a function: then every API call returns CUDA_ERROR_NOT_PERMITTED.
bool inside_callback();

}  // namespace cropdl::device
