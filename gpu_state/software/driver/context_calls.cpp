// cuCtx*: the current context of a thread, and the settings of contexts.
#include <cuda.h>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/memory.h"
#include "gpu_state/software/device/work.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;

namespace {

// For calls that work on a broken context too; detects destroyed contexts.
CUresult check_handle(CUcontext context) {
  if (CUresult error = device::initialized()) return error;
  CUresult state = device::check(context);
  return state == CUDA_ERROR_INVALID_CONTEXT || state == CUDA_ERROR_CONTEXT_IS_DESTROYED ? state
                                                                                         : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuCtxDestroy_v2(CUcontext context) {
  if (CUresult error = device::initialized()) return error;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = device::unsafe_while_capturing()) return error;
  return device::destroy_context(context);
}
CUresult cuCtxDestroy(CUcontext context) { return cuCtxDestroy_v2(context); }

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  if (CUresult error = device::initialized()) return error;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = check_handle(context)) return error;
  device::push(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) { return cuCtxPushCurrent_v2(context); }

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (CUresult error = device::initialized()) return error;
  return device::pop(context);
}
CUresult cuCtxPopCurrent(CUcontext* context) { return cuCtxPopCurrent_v2(context); }

CUresult cuCtxSetCurrent(CUcontext context) {
  if (CUresult error = device::initialized()) return error;
  if (context)
    if (CUresult error = check_handle(context)) return error;
  device::set_current(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (CUresult error = device::initialized()) return error;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = device::current();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  CUcontext context;
  if (CUresult error = device::enter_even_if_broken(&context)) return error;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  if (!context) return cuCtxGetDevice(device);
  if (CUresult error = check_handle(context)) return error;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  CUcontext context;
  if (CUresult error = device::enter_even_if_broken(&context)) return error;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags.load();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  if (CUresult error = device::initialized()) return error;
  if (!context) {
    if (CUresult error = device::enter_even_if_broken(&context)) return error;
  } else if (CUresult error = check_handle(context)) {
    return error;
  }
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = context->id.load();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int* version) {
  if (CUresult error = device::initialized()) return error;
  if (!context) {
    if (CUresult error = device::enter_even_if_broken(&context)) return error;
  } else if (CUresult error = check_handle(context)) {
    return error;
  }
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;  // the version of all contexts since CUDA 3.2
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  return device::wait_for_all(context);
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  if (!context) return cuCtxSynchronize();
  if (CUresult error = device::initialized()) return error;
  if (CUresult error = device::check(context)) return error;
  return device::wait_for_all(context);
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH && settings::settings().major >= 9)
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = context->limits[limit].load();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      // Local memory per thread is at most 512 KiB (Programming Guide, technical specifications).
      if (value > (512 << 10)) return CUDA_ERROR_INVALID_VALUE;
      context->limits[limit].store((value + 15) / 16 * 16);
      return CUDA_SUCCESS;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
      if (value > 128) return CUDA_ERROR_INVALID_VALUE;
      context->limits[limit].store(value);
      return CUDA_SUCCESS;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      if (CUresult error = context->device->memory().set_kernel_heap(value)) return error;
      context->limits[limit].store(value);
      return CUDA_SUCCESS;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
      context->limits[limit].store(value);
      return CUDA_SUCCESS;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
      if (settings::settings().major >= 9) return CUDA_ERROR_UNSUPPORTED_LIMIT;
      if (value > 24) return CUDA_ERROR_INVALID_VALUE;
      context->limits[limit].store(value);
      return CUDA_SUCCESS;
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
      // There is no such cache: "it can be ignored or clamped".
      context->limits[limit].store(0);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  *config = static_cast<CUfunc_cache>(context->cache.load());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
    return CUDA_ERROR_INVALID_VALUE;
  context->cache.store(config);
  return CUDA_SUCCESS;
}

// All devices since Maxwell have four-byte banks; the setting has had no effect since.
CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  bool known =
      config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE && config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache() {
  CUcontext context;
  return device::enter(&context);  // there is no cache whose contents could persist
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam* affinity, CUexecAffinityType type) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (!affinity) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  affinity->type = type;
  affinity->param.smCount.val = static_cast<unsigned>(settings::settings().multiprocessors);
  return CUDA_SUCCESS;
}

}  // extern "C"
