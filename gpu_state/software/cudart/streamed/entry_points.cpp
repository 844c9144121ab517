// The driver's functions by name, as the runtime returns them: by default, those for the default stream for
// which the program was compiled. Compiled twice (launches.cpp).
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
constexpr cuuint64_t kDefault = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
#else
constexpr cuuint64_t kDefault = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
#endif

cudaError_t find(const char* name, void** function, unsigned version, unsigned long long flags,
                 cudaDriverEntryPointQueryResult* status) {
  static_assert(int{cudaEnableLegacyStream} == int{CU_GET_PROC_ADDRESS_LEGACY_STREAM} &&
                int{cudaEnablePerThreadDefaultStream} == int{CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM});
  static_assert(int{cudaDriverEntryPointSymbolNotFound} == int{CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND} &&
                int{cudaDriverEntryPointVersionNotSufficent} ==
                    int{CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT});
  return run_without_context([&] {
    if (!name || !function) return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult answered = CU_GET_PROC_ADDRESS_SUCCESS;
    const CUresult result = cuGetProcAddress(name, function, static_cast<int>(version),
                                             flags == cudaEnableDefault ? kDefault : flags, &answered);
    if (status) *status = static_cast<cudaDriverEntryPointQueryResult>(answered);
    return result;
  });
}

}  // namespace

extern "C" {

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return find(name, function, CUDART_VERSION, flags, status);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* status) {
  return find(name, function, version, flags, status);
}
}
