// Libraries of device code that a program loads itself. Source: CUDA Runtime API 13.0, "Library Management".
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

// Options have the driver's numbers.
CUjit_option* as_options(cudaJitOption* options) { return reinterpret_cast<CUjit_option*>(options); }
CUlibraryOption* as_options(cudaLibraryOption* options) {
  return reinterpret_cast<CUlibraryOption*>(options);
}

template <class Get>
CUresult get(void** pointer, Get&& what) {
  CUdeviceptr address = 0;
  const CUresult result = what(pointer ? &address : nullptr);
  if (result == CUDA_SUCCESS && pointer) *pointer = as_pointer(address);
  return result;
}

}  // namespace

extern "C" {

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption* options,
                                void** values, unsigned count, cudaLibraryOption* library_options,
                                void** library_values, unsigned library_count) {
  return run([&] {
    return cuLibraryLoadData(library, code, as_options(options), values, count, as_options(library_options),
                             library_values, library_count);
  });
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path, cudaJitOption* options,
                                    void** values, unsigned count, cudaLibraryOption* library_options,
                                    void** library_values, unsigned library_count) {
  return run([&] {
    return cuLibraryLoadFromFile(library, path, as_options(options), values, count,
                                 as_options(library_options), library_values, library_count);
  });
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return run([&] { return cuLibraryUnload(library); });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return run([&] { return cuLibraryGetKernel(kernel, library, name); });
}

cudaError_t cudaLibraryGetGlobal(void** pointer, size_t* size, cudaLibrary_t library, const char* name) {
  return run([&] {
    return get(pointer,
               [&](CUdeviceptr* address) { return cuLibraryGetGlobal(address, size, library, name); });
  });
}

cudaError_t cudaLibraryGetManaged(void** pointer, size_t* size, cudaLibrary_t library, const char* name) {
  return run([&] {
    return get(pointer,
               [&](CUdeviceptr* address) { return cuLibraryGetManaged(address, size, library, name); });
  });
}

cudaError_t cudaLibraryGetUnifiedFunction(void** function, cudaLibrary_t library, const char* name) {
  return run([&] { return cuLibraryGetUnifiedFunction(function, library, name); });
}

cudaError_t cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t library) {
  return run([&] { return cuLibraryGetKernelCount(count, library); });
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned count, cudaLibrary_t library) {
  return run([&] { return cuLibraryEnumerateKernels(kernels, count, library); });
}
}
