// Modules, libraries, functions, kernels. A module is of one context: its variables lie in that context's
// memory and its code knows where. A library is of none: it becomes a module in each context that uses it.
// Any thread. Handles are checked against those that live; what they point to is never given back to the
// allocator, so that a stale one stays known for one.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "gpu_state/software/engine/launch.h"

namespace cropdl::device {

// What cuFuncSetAttribute and cuKernelSetAttribute change.
struct FunctionSettings {
  std::atomic<int> max_dynamic_shared{0};  // bytes beyond the 48 KiB that need no leave; 0: not set
  std::atomic<int> carveout{-1};           // CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: a hint
  std::atomic<int> cache{0};               // CUfunc_cache: a hint
};

// What a launch needs to know of its function.
struct Launchable {
  CUfunction function = nullptr;  // never a kernel's handle
  std::shared_ptr<const engine::Kernel> kernel;
  // How much dynamic shared memory a launch may ask for: what is left of 48 KiB, or what
  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES allows.
  uint32_t max_dynamic_shared = 0;
};

// Of a CUfunction of `context`, or of a CUkernel that was cast to one (cuLaunchKernel allows that).
// CUDA_ERROR_INVALID_HANDLE: neither, or of another context. A kernel with an instruction of no class is
// CUDA_ERROR_NOT_SUPPORTED, with the instruction, the kernel and the line on stderr.
CUresult launchable(CUfunction handle, CUcontext context, Launchable* found);

}  // namespace cropdl::device
