// Kernels on their way into a stream or a node: everything that a launch is refused for is found here, and
// the arguments are copied. Sources: CUDA Driver API, cuLaunchKernel, cuLaunchKernelEx,
// cuLaunchCooperativeKernel; CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
#pragma once

#include <span>

#include "gpu_state/software/device/work.h"

namespace cropdl::device {

// Any thread. CUDA_ERROR_INVALID_HANDLE: no function of this context; CUDA_ERROR_INVALID_VALUE: no such grid
// or block, too much shared memory, arguments missing; CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: more threads than
// the kernel was built for; CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE; CUDA_ERROR_NOT_SUPPORTED: an attribute
// that is not built, named on stderr.
CUresult kernel_work(CUcontext context, const CUlaunchConfig& config, CUfunction function, void** parameters,
                     void** extra, KernelWork* work);

// What launch attributes say that matters here, written into the work; the rest is kept for those who ask.
CUresult take_attributes(std::span<const CUlaunchAttribute> attributes, KernelWork* work);

// The checks again, for a work whose shape or attributes were changed.
CUresult check_shape(CUcontext context, const KernelWork& work, uint32_t max_dynamic_shared);

// A pointer to each argument in the work's copy, as kernelParams.
std::vector<void*> pointers_to_parameters(KernelWork& work);

}  // namespace cropdl::device
