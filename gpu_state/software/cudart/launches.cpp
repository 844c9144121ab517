// The configuration that <<<>>> passes to the following launch in the same thread, and the errors of
// launches.
#include "gpu_state/software/cudart/launches.h"

#include <vector>

#include "gpu_state/software/cudart/runtime.h"
#include "gpu_state/software/device/of_thread.h"

namespace cropdl::cudart {
namespace {

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};

// A stack, since the expressions of a launch's arguments may contain launches. Static objects' destructors
// may launch too.
std::vector<Configuration>& configurations() {
  struct Stack : std::vector<Configuration> {};
  return device::OfThread<Stack>::get();
}

bool is_beyond(const dim3& size, const CUdevice_attribute (&limits)[3]) {
  const unsigned sizes[3] = {size.x, size.y, size.z};
  for (int i = 0; i < 3; i++) {
    int limit = 0;
    if (cuDeviceGetAttribute(&limit, limits[i], current_device()) != CUDA_SUCCESS) return false;
    if (sizes[i] == 0 || sizes[i] > static_cast<unsigned>(limit)) return true;
  }
  return false;
}

constexpr CUdevice_attribute kGridLimits[3] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
                                               CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                                               CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
constexpr CUdevice_attribute kBlockLimits[3] = {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
                                                CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                                                CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};

bool has_too_many_threads(const dim3& block) {
  int limit = 0;
  cuDeviceGetAttribute(&limit, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, current_device());
  return uint64_t{block.x} * block.y * block.z > static_cast<unsigned>(limit);
}

}  // namespace

CUlaunchConfig as_config(const cudaLaunchConfig_t& config) {
  CUlaunchConfig wanted = {};
  wanted.gridDimX = config.gridDim.x;
  wanted.gridDimY = config.gridDim.y;
  wanted.gridDimZ = config.gridDim.z;
  wanted.blockDimX = config.blockDim.x;
  wanted.blockDimY = config.blockDim.y;
  wanted.blockDimZ = config.blockDim.z;
  wanted.sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes);
  wanted.hStream = config.stream;
  wanted.attrs = same<CUlaunchAttribute>(config.attrs);
  wanted.numAttrs = config.numAttrs;
  return wanted;
}

cudaError_t launch_error(CUresult result, const dim3& grid, const dim3& block) {
  if (result != CUDA_ERROR_INVALID_VALUE) return as_error(result);
  if (is_beyond(grid, kGridLimits) || is_beyond(block, kBlockLimits) || has_too_many_threads(block))
    return cudaErrorInvalidConfiguration;
  return cudaErrorInvalidValue;
}

}  // namespace cropdl::cudart

using namespace cropdl::cudart;

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  configurations().push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  std::vector<Configuration>& all = configurations();
  if (all.empty()) return answer(cudaErrorMissingConfiguration);
  const Configuration& last = all.back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  all.pop_back();
  return cudaSuccess;
}
}
