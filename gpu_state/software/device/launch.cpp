#include "gpu_state/software/device/launch.h"

#include <cstring>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/module.h"
#include "gpu_state/software/device/not_built.h"

namespace cropdl::device {

namespace {

CUresult copy_from_pointers(const engine::KernelFacts& facts, void** parameters,
                            std::vector<std::byte>* bytes) {
  for (size_t i = 0; i < facts.parameters.size(); ++i) {
    auto [offset, size] = facts.parameters[i];
    if (!parameters[i]) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(bytes->data() + offset, parameters[i], size);
  }
  return CUDA_SUCCESS;
}

CUresult copy_from_buffer(void** extra, std::vector<std::byte>* bytes) {
  const void* buffer = nullptr;
  const size_t* size = nullptr;
  for (void** name = extra; *name != CU_LAUNCH_PARAM_END; name += 2) {
    if (*name == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = name[1];
    else if (*name == CU_LAUNCH_PARAM_BUFFER_SIZE)
      size = static_cast<const size_t*>(name[1]);
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (!size || *size < bytes->size() || (!buffer && *size)) return CUDA_ERROR_INVALID_VALUE;
  if (!bytes->empty()) std::memcpy(bytes->data(), buffer, bytes->size());
  return CUDA_SUCCESS;
}

CUresult copy_arguments(const engine::KernelFacts& facts, void** parameters, void** extra,
                        std::vector<std::byte>* bytes) {
  if (parameters && extra) return CUDA_ERROR_INVALID_VALUE;
  bytes->assign(facts.parameter_bytes, std::byte{0});
  if (extra) return copy_from_buffer(extra, bytes);
  if (facts.parameters.empty()) return CUDA_SUCCESS;
  return parameters ? copy_from_pointers(facts, parameters, bytes) : CUDA_ERROR_INVALID_VALUE;
}

template <class T>
bool is_one(const T& shape) {
  return shape.x == 1 && shape.y == 1 && shape.z == 1;
}

}  // namespace

CUresult take_attributes(std::span<const CUlaunchAttribute> attributes, KernelWork* work) {
  for (const CUlaunchAttribute& attribute : attributes) {
    const CUlaunchAttributeValue& value = attribute.value;
    switch (attribute.id) {
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
        continue;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        work->cooperative = value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        if (!is_one(value.clusterDim)) return not_built("a launch with clusters of more than one block");
        break;
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        if (!is_one(value.preferredClusterDim))
          return not_built("a launch with clusters of more than one block");
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        return not_built("CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT");
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        return not_built("CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT");
      case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        if (value.deviceUpdatableKernelNode.deviceUpdatable)
          return not_built("CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE");
        break;
      // A kernel that may start early may also start after everything before it.
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      // Hints that affect only speed.
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    work->attributes.push_back(attribute);
  }
  return CUDA_SUCCESS;
}

CUresult check_shape(CUcontext context, const KernelWork& work, uint32_t max_dynamic_shared) {
  constexpr engine::Dim3 kMostBlocks{0x7fffffff, 65535, 65535}, kMostThreads{1024, 1024, 64};
  constexpr uint64_t kMostThreadsOfBlock = 1024;
  uint64_t blocks = 1, threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (work.grid[i] == 0 || work.grid[i] > kMostBlocks[i] || work.block[i] == 0 ||
        work.block[i] > kMostThreads[i])
      return CUDA_ERROR_INVALID_VALUE;
    blocks *= work.grid[i];
    threads *= work.block[i];
  }
  if (threads > kMostThreadsOfBlock || work.shared > max_dynamic_shared) return CUDA_ERROR_INVALID_VALUE;
  const engine::KernelFacts& facts = engine::facts(*work.kernel);
  if (facts.required_threads != engine::Dim3{} && facts.required_threads != work.block)
    return CUDA_ERROR_INVALID_VALUE;
  if (threads > facts.max_threads) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (!work.cooperative) return CUDA_SUCCESS;
  int processors = 0;
  if (CUresult error = context->device->attribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
      error != CUDA_SUCCESS)
    return error;
  int resident =
      context->device->worker_pool().resident(*work.kernel, static_cast<uint32_t>(threads), work.shared);
  return blocks > static_cast<uint64_t>(resident) * static_cast<uint64_t>(processors)
             ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
             : CUDA_SUCCESS;
}

CUresult kernel_work(CUcontext context, const CUlaunchConfig& config, CUfunction function, void** parameters,
                     void** extra, KernelWork* work) {
  Launchable found;
  if (CUresult error = launchable(function, context, &found); error != CUDA_SUCCESS) return error;
  work->function = found.function;
  work->kernel = found.kernel;
  work->grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
  work->block = {config.blockDimX, config.blockDimY, config.blockDimZ};
  work->shared = config.sharedMemBytes;
  if (config.numAttrs && !config.attrs) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = take_attributes({config.attrs, config.numAttrs}, work); error != CUDA_SUCCESS)
    return error;
  if (CUresult error = check_shape(context, *work, found.max_dynamic_shared); error != CUDA_SUCCESS)
    return error;
  return copy_arguments(engine::facts(*found.kernel), parameters, extra, &work->parameters);
}

std::vector<void*> pointers_to_parameters(KernelWork& work) {
  std::vector<void*> pointers;
  for (auto [offset, size] : engine::facts(*work.kernel).parameters)
    pointers.push_back(work.parameters.data() + offset);
  return pointers;
}

}  // namespace cropdl::device
