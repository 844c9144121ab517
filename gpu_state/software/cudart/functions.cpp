// Kernels: queries and settings. A function is identified by its symbol, a cudaKernel_t or a cudaFunction_t.
// Sources: CUDA Runtime API 13.0, "Execution Control", "Occupancy", "Interactions with the CUDA Driver API".
#include "gpu_state/software/cudart/launches.h"
#include "gpu_state/software/cudart/runtime.h"
#include "gpu_state/software/cudart/symbols.h"

using namespace cropdl::cudart;

namespace {

// Calls `Do` with the function in the calling thread's context.
template <class Do>
cudaError_t with_function(const void* symbol, Do&& what) {
  return run([&] {
    CUfunction function = nullptr;
    const cudaError_t error = function_of(symbol, &function);
    return error == cudaSuccess ? as_error(what(function)) : error;
  });
}

struct FunctionField {
  CUfunction_attribute attribute;
  int cudaFuncAttributes::*field;
};
constexpr FunctionField kFunctionFields[] = {
    {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &cudaFuncAttributes::maxThreadsPerBlock},
    {CU_FUNC_ATTRIBUTE_NUM_REGS, &cudaFuncAttributes::numRegs},
    {CU_FUNC_ATTRIBUTE_PTX_VERSION, &cudaFuncAttributes::ptxVersion},
    {CU_FUNC_ATTRIBUTE_BINARY_VERSION, &cudaFuncAttributes::binaryVersion},
    {CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, &cudaFuncAttributes::cacheModeCA},
    {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &cudaFuncAttributes::maxDynamicSharedSizeBytes},
    {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &cudaFuncAttributes::preferredShmemCarveout},
    {CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, &cudaFuncAttributes::clusterDimMustBeSet},
    {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, &cudaFuncAttributes::requiredClusterWidth},
    {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, &cudaFuncAttributes::requiredClusterHeight},
    {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, &cudaFuncAttributes::requiredClusterDepth},
    {CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
     &cudaFuncAttributes::clusterSchedulingPolicyPreference},
    {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, &cudaFuncAttributes::nonPortableClusterSizeAllowed},
};

struct Size {
  CUfunction_attribute attribute;
  size_t cudaFuncAttributes::*field;
};
constexpr Size kSizes[] = {
    {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &cudaFuncAttributes::sharedSizeBytes},
    {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, &cudaFuncAttributes::constSizeBytes},
    {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &cudaFuncAttributes::localSizeBytes},
};

CUresult fill(CUfunction function, cudaFuncAttributes* attributes) {
  *attributes = {};
  int value = 0;
  CUresult result = CUDA_SUCCESS;
  for (const Size& size : kSizes) {
    if (result == CUDA_SUCCESS) result = cuFuncGetAttribute(&value, size.attribute, function);
    attributes->*size.field = value;
  }
  for (const FunctionField& field : kFunctionFields)
    if (result == CUDA_SUCCESS)
      result = cuFuncGetAttribute(&(attributes->*field.field), field.attribute, function);
  return result;
}

CUfunction_attribute as_attribute(cudaFuncAttribute attribute) {
  static_assert(int{cudaFuncAttributeMaxDynamicSharedMemorySize} ==
                int{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES});
  static_assert(int{cudaFuncAttributeClusterSchedulingPolicyPreference} ==
                int{CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE});
  return static_cast<CUfunction_attribute>(attribute);
}

}  // namespace

extern "C" {

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* symbol) {
  return with_function(symbol, [&](CUfunction function) {
    return attributes ? fill(function, attributes) : CUDA_ERROR_INVALID_VALUE;
  });
}

cudaError_t cudaFuncSetAttribute(const void* symbol, cudaFuncAttribute attribute, int value) {
  return with_function(symbol, [&](CUfunction function) {
    return cuFuncSetAttribute(function, as_attribute(attribute), value);
  });
}

cudaError_t cudaFuncSetCacheConfig(const void* symbol, cudaFuncCache config) {
  return with_function(symbol, [&](CUfunction function) {
    return cuFuncSetCacheConfig(function, static_cast<CUfunc_cache>(config));
  });
}

cudaError_t cudaFuncSetSharedMemConfig(const void* symbol, cudaSharedMemConfig config) {
  return with_function(symbol, [&](CUfunction function) {
    return cuFuncSetSharedMemConfig(function, static_cast<CUsharedconfig>(config));
  });
}

cudaError_t cudaFuncGetName(const char** name, const void* symbol) {
  return with_function(symbol, [&](CUfunction function) { return cuFuncGetName(name, function); });
}

cudaError_t cudaFuncGetParamInfo(const void* symbol, size_t index, size_t* offset, size_t* size) {
  return with_function(
      symbol, [&](CUfunction function) { return cuFuncGetParamInfo(function, index, offset, size); });
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function_out, const void* symbol) {
  return with_function(symbol, [&](CUfunction function) {
    if (!function_out) return CUDA_ERROR_INVALID_VALUE;
    *function_out = function;
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* symbol) {
  return run([&] { return kernel ? kernel_of(symbol, kernel) : cudaErrorInvalidValue; });
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value,
                                            int device) {
  return run([&] { return cuKernelSetAttribute(as_attribute(attribute), value, kernel, device); });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* symbol, int threads,
                                                          size_t shared) {
  return with_function(symbol, [&](CUfunction function) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* symbol,
                                                                   int threads, size_t shared,
                                                                   unsigned flags) {
  return with_function(symbol, [&](CUfunction function) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, flags);
  });
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* shared, const void* symbol, int blocks,
                                                      int threads) {
  return with_function(symbol, [&](CUfunction function) {
    return cuOccupancyAvailableDynamicSMemPerBlock(shared, function, blocks, threads);
  });
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* symbol,
                                                 const cudaLaunchConfig_t* config) {
  return with_function(symbol, [&](CUfunction function) {
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    const CUlaunchConfig wanted = as_config(*config);
    return cuOccupancyMaxPotentialClusterSize(size, function, &wanted);
  });
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* symbol,
                                           const cudaLaunchConfig_t* config) {
  return with_function(symbol, [&](CUfunction function) {
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    const CUlaunchConfig wanted = as_config(*config);
    return cuOccupancyMaxActiveClusters(clusters, function, &wanted);
  });
}
}
