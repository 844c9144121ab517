// cuFunc* and occupancy. With a current context, a CUkernel cast to CUfunction is accepted too (resolve()).
#include <cuda.h>

#include <algorithm>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/module.h"
#include "gpu_state/software/driver/function_attributes.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;

namespace {

struct Entered {
  CUcontext context = nullptr;
  std::shared_ptr<CUfunc_st> function;
  std::shared_ptr<const engine::Kernel> code;
};

CUresult enter_with(CUfunction handle, Entered* entered) {
  if (CUresult error = device::enter(&entered->context)) return error;
  return device::resolve(handle, entered->context, &entered->function);
}

CUresult enter_with_code(CUfunction handle, Entered* entered) {
  if (CUresult error = enter_with(handle, entered)) return error;
  return device::code_of(*entered->function, &entered->code);
}

int resident(const Entered& entered, int threads, size_t dynamic_shared) {
  return entered.context->device->worker_pool().resident(*entered.code, static_cast<uint32_t>(threads),
                                                         static_cast<uint32_t>(dynamic_shared));
}

// Blocks of that shape per multiprocessor; 0 if none can be launched.
int fitting(const Entered& entered, int threads, size_t dynamic_shared) {
  if (threads > static_cast<int>(engine::facts(*entered.code).max_threads)) return 0;
  if (dynamic_shared > static_cast<size_t>(device::capability().shared_per_block)) return 0;
  return resident(entered, threads, dynamic_shared);
}

}  // namespace

extern "C" {

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction handle) {
  Entered entered;
  if (CUresult error = enter_with_code(handle, &entered)) return error;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  const engine::KernelFacts& facts = engine::facts(*entered.code);
  std::shared_ptr<CUkern_st> kernel = device::find_kernel(entered.function->kernel);
  if (!kernel) return driver::get_attribute(value, which, facts, entered.function->settings, nullptr);
  std::lock_guard lock(kernel->mutex);
  return driver::get_attribute(value, which, facts, entered.function->settings,
                               &kernel->settings[entered.context->device->ordinal]);
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute which, int value) {
  Entered entered;
  if (CUresult error = enter_with_code(handle, &entered)) return error;
  return driver::set_attribute(which, value, engine::facts(*entered.code), entered.function->settings);
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config) {
  Entered entered;
  if (CUresult error = enter_with(handle, &entered)) return error;
  return driver::set_cache(config, entered.function->settings);
}

CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config) {
  Entered entered;
  if (CUresult error = enter_with(handle, &entered)) return error;
  return cuCtxSetSharedMemConfig(config);
}

CUresult cuFuncGetName(const char** name, CUfunction handle) {
  if (!name || !handle) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = device::initialized()) return error;
  if (std::shared_ptr<CUfunc_st> function = device::find_function(handle)) {
    *name = function->name.c_str();
    return CUDA_SUCCESS;
  }
  return cuKernelGetName(name, reinterpret_cast<CUkernel>(handle));
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction handle) {
  Entered entered;
  if (CUresult error = enter_with(handle, &entered)) return error;
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  *module = entered.function->module;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* size) {
  Entered entered;
  if (CUresult error = enter_with_code(handle, &entered)) return error;
  return driver::parameter(engine::facts(*entered.code), index, offset, size);
}

// Always "loaded": the text is there from the start; cuFuncLoad lowers it and reports what is missing.
CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  Entered entered;
  if (CUresult error = enter_with(handle, &entered)) return error;
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction handle) {
  Entered entered;
  return enter_with_code(handle, &entered);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction handle, int threads,
                                                              size_t dynamic_shared, unsigned int flags) {
  Entered entered;
  if (CUresult error = enter_with_code(handle, &entered)) return error;
  if (!blocks || threads <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  *blocks = fitting(entered, threads, dynamic_shared);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle, int threads,
                                                     size_t dynamic_shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, threads, dynamic_shared, 0);
}

// The largest number of threads per multiprocessor, and of the shapes that reach it, the one with the largest
// blocks, as in the toolkit's cuda_occupancy.h.
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction handle,
                                                   CUoccupancyB2DSize shared_of, size_t dynamic_shared,
                                                   int limit, unsigned int flags) {
  Entered entered;
  if (CUresult error = enter_with_code(handle, &entered)) return error;
  if (!grid || !block || limit < 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  int most = static_cast<int>(engine::facts(*entered.code).max_threads);
  if (limit == 0 || limit > most) limit = most;
  int best_threads = 0, best_block = 0, best_blocks = 0;
  for (int threads = (limit + 31) / 32 * 32; threads > 0; threads -= 32) {
    int tried = std::min(threads, limit);
    int blocks = fitting(entered, tried, shared_of ? shared_of(tried) : dynamic_shared);
    if (tried * blocks <= best_threads) continue;
    best_threads = tried * blocks;
    best_block = tried;
    best_blocks = blocks;
  }
  *block = best_block;
  *grid = best_blocks * settings::settings().multiprocessors;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction handle,
                                          CUoccupancyB2DSize shared_of, size_t dynamic_shared, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, handle, shared_of, dynamic_shared, limit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamic_shared, CUfunction handle, int blocks,
                                                 int threads) {
  Entered entered;
  if (CUresult error = enter_with_code(handle, &entered)) return error;
  if (!dynamic_shared || blocks <= 0 || threads <= 0 || fitting(entered, threads, 0) < blocks)
    return CUDA_ERROR_INVALID_VALUE;
  // More memory means fewer blocks: finds the largest size with enough of them.
  size_t fits = 0, too_much = static_cast<size_t>(device::capability().shared_per_block) + 1;
  while (too_much - fits > 1) {
    size_t middle = fits + (too_much - fits) / 2;
    (fitting(entered, threads, middle) >= blocks ? fits : too_much) = middle;
  }
  *dynamic_shared = fits;
  return CUDA_SUCCESS;
}

}  // extern "C"
