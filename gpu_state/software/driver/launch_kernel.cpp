// cuLaunch*. Source: CUDA Driver API 13.0, "Execution Control".
#include <cuda.h>

#include <cstdlib>
#include <string_view>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/launch.h"
#include "gpu_state/software/device/printed.h"
#include "gpu_state/software/device/streams.h"
#include "gpu_state/software/driver/per_thread.h"

using namespace cropdl;
using driver::or_own;

namespace {

// CUDA C++ Programming Guide, "Environment Variables": launches then return only after the kernel has run.
bool launches_block() {
  static const bool kBlock = [] {
    const char* text = std::getenv("CUDA_LAUNCH_BLOCKING");
    return text && std::string_view(text) == "1";
  }();
  return kBlock;
}

CUresult launch(const CUlaunchConfig& config, CUfunction function, void** parameters, void** extra) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = device::resolve(config.hStream, &stream); error != CUDA_SUCCESS) return error;
  device::KernelWork work;
  if (CUresult error = device::kernel_work(stream->context, config, function, parameters, extra, &work);
      error != CUDA_SUCCESS)
    return error;
  device::show_printed(stream->context);
  if (CUresult error = device::submit(config.hStream, std::move(work)); error != CUDA_SUCCESS) return error;
  return launches_block() && !device::is_captured(config.hStream) ? device::wait_for(config.hStream)
                                                                  : CUDA_SUCCESS;
}

CUlaunchConfig config_of(unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                         unsigned block_y, unsigned block_z, unsigned shared, CUstream stream) {
  CUlaunchConfig config{};
  config.gridDimX = grid_x;
  config.gridDimY = grid_y;
  config.gridDimZ = grid_z;
  config.blockDimX = block_x;
  config.blockDimY = block_y;
  config.blockDimZ = block_z;
  config.sharedMemBytes = shared;
  config.hStream = stream;
  return config;
}

}  // namespace

extern "C" {

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void** parameters, void** extra) {
  return launch(config_of(grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream), function,
                parameters, extra);
}
CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                             CUstream stream, void** parameters, void** extra) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, or_own(stream),
                        parameters, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void** extra) {
  return config ? launch(*config, function, parameters, extra) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function, void** parameters,
                               void** extra) {
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  CUlaunchConfig own = *config;
  own.hStream = or_own(config->hStream);
  return launch(own, function, parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                   CUstream stream, void** parameters) {
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  CUlaunchConfig config = config_of(grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream);
  config.attrs = &cooperative;
  config.numAttrs = 1;
  return launch(config, function, parameters, nullptr);
}
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y,
                                        unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                                        unsigned shared, CUstream stream, void** parameters) {
  return cuLaunchCooperativeKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
                                   or_own(stream), parameters);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  return device::submit(stream, device::HostWork{function, data, nullptr, nullptr});
}
CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void* data) {
  return cuLaunchHostFunc(or_own(stream), function, data);
}

}  // extern "C"
