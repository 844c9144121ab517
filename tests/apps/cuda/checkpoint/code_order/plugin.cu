// nvcc: -Xcompiler -fPIC -shared -Xlinker -Bsymbolic
// Loaded and unloaded, together with its kernel's attributes, its module and its library.
#include <cuda.h>

__device__ unsigned in_plugin[300] = {0, 51};
static __global__ void keep(unsigned** at) { *at = &in_plugin[1]; }

extern "C" void* address_in_plugin() {
  void* address = nullptr;
  return cudaGetSymbolAddress(&address, in_plugin) == cudaSuccess ? address : nullptr;
}

extern "C" int keep_plugin(unsigned** at) {
  cudaKernel_t kernel;
  cudaFunction_t function;
  CUmodule module;
  CUlibrary library;
  int error = cudaFuncSetAttribute(keep, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024);
  if (!error) error = cudaFuncSetCacheConfig(keep, cudaFuncCachePreferL1);
  if (!error) error = cudaGetKernel(&kernel, reinterpret_cast<const void*>(keep));
  if (!error) error = cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(keep));
  if (!error) error = cuFuncGetModule(&module, function);
  if (!error) error = cuKernelGetLibrary(&library, kernel);
  if (!error) error = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 50);
  keep<<<1, 1>>>(at);
  return error ? error : cudaGetLastError();
}
