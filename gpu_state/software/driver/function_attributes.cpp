#include "gpu_state/software/driver/function_attributes.h"

#include <charconv>

#include "gpu_state/software/device/device.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::driver {

namespace {

int number_of(const std::string& target) {  // "sm_90a" : 90
  int number = 0;
  if (target.size() > 3) std::from_chars(target.data() + 3, target.data() + target.size(), number);
  return number;
}

int dynamic_shared(const engine::KernelFacts& facts, int set) {
  if (set >= 0) return set;
  return facts.static_shared < 49152 ? 49152 - static_cast<int>(facts.static_shared) : 0;
}

}  // namespace

CUresult get_attribute(int* value, CUfunction_attribute which, const engine::KernelFacts& facts,
                       const device::FunctionSettings& settings,
                       const device::FunctionSettings* kernel_settings) {
  auto is = [&](uint64_t what) {
    *value = static_cast<int>(what);
    return CUDA_SUCCESS;
  };
  auto setting = [&](std::atomic<int> device::FunctionSettings::*member) {
    int own = (settings.*member).load();
    return own < 0 && kernel_settings ? (kernel_settings->*member).load() : own;
  };
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return is(facts.max_threads);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return is(facts.static_shared);
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      return is(facts.constant);
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      return is(facts.local);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return is(facts.registers);
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      return is(number_of(facts.target));
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return is(settings::settings().major * 10 + settings::settings().minor);
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      return is(0);
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return is(dynamic_shared(facts, setting(&device::FunctionSettings::max_dynamic_shared)));
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return is(setting(&device::FunctionSettings::carveout));
    // Clusters are not supported.
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return is(0);
    case CU_FUNC_ATTRIBUTE_MAX:
      break;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult set_attribute(CUfunction_attribute which, int value, const engine::KernelFacts& facts,
                       device::FunctionSettings& settings) {
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      int64_t most = device::capability().shared_per_block - static_cast<int64_t>(facts.static_shared);
      if (value < 0 || value > most) return CUDA_ERROR_INVALID_VALUE;
      settings.max_dynamic_shared.store(value);
      return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      settings.carveout.store(value);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      if (value == 0) return CUDA_SUCCESS;
      settings::say_not_built("clusters of thread blocks (cuFuncSetAttribute)");
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult set_cache(CUfunc_cache config, device::FunctionSettings& settings) {
  if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
    return CUDA_ERROR_INVALID_VALUE;
  settings.cache.store(config);
  return CUDA_SUCCESS;
}

CUresult parameter(const engine::KernelFacts& facts, size_t index, size_t* offset, size_t* size) {
  if (!offset || index >= facts.parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = facts.parameters[index].first;
  if (size) *size = facts.parameters[index].second;
  return CUDA_SUCCESS;
}

}  // namespace cropdl::driver
