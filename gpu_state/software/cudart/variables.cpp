// Queries about variables.
#include "gpu_state/software/cudart/runtime.h"
#include "gpu_state/software/cudart/symbols.h"

using namespace cropdl::cudart;

extern "C" {

cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  return run([&] {
    if (!pointer) return cudaErrorInvalidValue;
    CUdeviceptr address = 0;
    size_t size = 0;
    const cudaError_t error = variable_of(symbol, &address, &size);
    if (error == cudaSuccess) *pointer = as_pointer(address);
    return error;
  });
}

cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  return run([&] {
    if (!size) return cudaErrorInvalidValue;
    CUdeviceptr address = 0;
    return variable_of(symbol, &address, size);
  });
}
}
