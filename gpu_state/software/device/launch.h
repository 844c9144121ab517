// Prepares a kernel launch for a stream or a node: checks everything for which a launch is refused and copies
// the arguments. Sources: CUDA Driver API, cuLaunchKernel, cuLaunchKernelEx, cuLaunchCooperativeKernel; CUDA
// C++ Programming Guide, "Technical Specifications per Compute Capability".
#pragma once

#include <span>

#include "gpu_state/software/device/work.h"

namespace cropdl::device {

// Any thread. CUDA_ERROR_INVALID_HANDLE: not a function of this context. CUDA_ERROR_INVALID_VALUE: invalid
// grid or block, too much shared memory, missing arguments. CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: more threads
// than the kernel was built for. CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE. CUDA_ERROR_NOT_SUPPORTED: an
// attribute that is not implemented, named on stderr.
CUresult kernel_work(CUcontext context, const CUlaunchConfig& config, CUfunction function, void** parameters,
                     void** extra, KernelWork* work);

// Applies launch attributes to the work; keeps those without effect for queries.
CUresult take_attributes(std::span<const CUlaunchAttribute> attributes, KernelWork* work);

// Repeats the checks for a work whose shape or attributes have changed.
CUresult check_shape(CUcontext context, const KernelWork& work, uint32_t max_dynamic_shared);

// Pointers to the arguments in the work's copy, as kernelParams.
std::vector<void*> pointers_to_parameters(KernelWork& work);

}  // namespace cropdl::device
