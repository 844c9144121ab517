// cuGetProcAddress. Any thread, also before cuInit: the runtime looks up cuInit itself here.
#include <cuda.h>

#include <string_view>

#include "gpu_state/software/driver/procedures.h"

using namespace cropdl;

extern "C" {

// Not found: CUDA_SUCCESS, a null pointer and the corresponding status, as the driver's documentation says.
CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (!symbol || !function || version > CUDA_VERSION) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_GET_PROC_ADDRESS_DEFAULT && flags != CU_GET_PROC_ADDRESS_LEGACY_STREAM &&
      flags != CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
    return CUDA_ERROR_INVALID_VALUE;
  bool known = false;
  const driver::Procedure* best = nullptr;
  for (size_t i = 0; i < driver::kProcedureCount; ++i) {
    const driver::Procedure& one = driver::kProcedures[i];
    if (std::string_view(one.name) != symbol) continue;
    known = true;
    if (one.introduced > version) continue;
    if (one.per_thread && flags != CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) continue;
    best = &one;  // the last match counts: per-thread before legacy, then the newest
  }
  *function = best ? reinterpret_cast<void*>(best->function) : nullptr;
  if (status)
    *status = best    ? CU_GET_PROC_ADDRESS_SUCCESS
              : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

}  // extern "C"
