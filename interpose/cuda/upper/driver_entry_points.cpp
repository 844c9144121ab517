// The runtime's lookup of driver functions by name. They come from the driver's shim, which a program linked
// only with the runtime has not loaded yet. UH, any thread, UH FS base; from libc: dlopen, dlsym. Source:
// cuda_runtime_api.h, "Driver Entry Point Access".
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "interpose/cuda/upper/errors.h"
#include "interpose/gen/cudart/undeclared.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

using cropdl::cuda_shim::noted;

namespace {

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

// Null: the program would find no driver.
GetProcAddress driver() {
  static GetProcAddress volatile found;  // the same value from any thread
  if (found == nullptr)
    if (void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
      found = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  return found;
}

// A CUresult cast to cudaError_t keeps its number.
static_assert(int{CUDA_ERROR_INVALID_VALUE} == 1 && int{cudaErrorInvalidValue} == 1);
static_assert(int{CUDA_ERROR_NOT_SUPPORTED} == int{cudaErrorNotSupported});
static_assert(int{cudaEnableLegacyStream} == int{CU_GET_PROC_ADDRESS_LEGACY_STREAM} &&
              int{cudaEnablePerThreadDefaultStream} == int{CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM});
static_assert(int{cudaDriverEntryPointSymbolNotFound} == int{CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND} &&
              int{cudaDriverEntryPointVersionNotSufficent} ==
                  int{CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT});

// `usual`: the default stream that cudaEnableDefault selects.
cudaError_t find(const char* name, void** function, unsigned version, unsigned long long flags,
                 cudaDriverEntryPointQueryResult* status, unsigned long long usual) {
  const GetProcAddress get = driver();
  if (get == nullptr) return noted(cudaErrorInsufficientDriver);
  if (name == nullptr || function == nullptr) return noted(cudaErrorInvalidValue);
  CUdriverProcAddressQueryResult answered = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult result =
      get(name, function, static_cast<int>(version), flags == cudaEnableDefault ? usual : flags, &answered);
  if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(answered);
  return noted(static_cast<cudaError_t>(result));
}

}  // namespace

extern "C" {

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return find(name, function, CUDART_VERSION, flags, status, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
}
cudaError_t cudaGetDriverEntryPoint_ptsz(const char* name, void** function, unsigned long long flags,
                                         cudaDriverEntryPointQueryResult* status) {
  return find(name, function, CUDART_VERSION, flags, status, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* status) {
  return find(name, function, version, flags, status, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
}
cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* name, void** function, unsigned version,
                                                  unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* status) {
  return find(name, function, version, flags, status, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}

// Like NVIDIA's 13.0, whose code is the same two instructions.
cudaError_t __cudaGetProcAddress(const char*, void**, int, unsigned long long) { return cudaSuccess; }

}  // extern "C"
