// Launches. Like every file in this folder it is compiled twice: as it is, and with
// CUDA_API_PER_THREAD_DEFAULT_STREAM, which makes the toolkit's headers rename our functions and the driver's
// to …_ptsz and …_ptds; in these, stream 0 is the calling thread's own.
#include "gpu_state/software/cudart/launches.h"

#include "gpu_state/software/cudart/runtime.h"
#include "gpu_state/software/cudart/symbols.h"

using namespace cropdl::cudart;

namespace {

cudaError_t launch(const void* symbol, const dim3& grid, const dim3& block, void** arguments, size_t shared,
                   cudaStream_t stream, bool cooperative) {
  return run([&] {
    CUfunction function = nullptr;
    if (const cudaError_t error = function_of(symbol, &function); error != cudaSuccess) return error;
    if (shared != static_cast<unsigned>(shared)) return cudaErrorInvalidValue;
    const CUresult result =
        cooperative ? cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                                static_cast<unsigned>(shared), stream, arguments)
                    : cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                     static_cast<unsigned>(shared), stream, arguments, nullptr);
    return launch_error(result, grid, block);
  });
}

}  // namespace

extern "C" {

cudaError_t cudaLaunchKernel(const void* symbol, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
  return launch(symbol, grid, block, arguments, shared, stream, false);
}

cudaError_t __CUDART_API_PTSZ(__cudaLaunchKernel)(cudaKernel_t kernel, dim3 grid, dim3 block,
                                                  void** arguments, size_t shared, cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, shared, stream, false);
}

cudaError_t cudaLaunchCooperativeKernel(const void* symbol, dim3 grid, dim3 block, void** arguments,
                                        size_t shared, cudaStream_t stream) {
  return launch(symbol, grid, block, arguments, shared, stream, true);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* symbol, void** arguments) {
  return run([&] {
    if (!config) return cudaErrorInvalidValue;
    CUfunction function = nullptr;
    if (const cudaError_t error = function_of(symbol, &function); error != cudaSuccess) return error;
    if (config->dynamicSmemBytes != static_cast<unsigned>(config->dynamicSmemBytes))
      return cudaErrorInvalidValue;
    const CUlaunchConfig wanted = as_config(*config);
    const CUresult result = cuLaunchKernelEx(&wanted, function, arguments, nullptr);
    return launch_error(result, config->gridDim, config->blockDim);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return run([&] { return cuLaunchHostFunc(stream, function, data); });
}
}
