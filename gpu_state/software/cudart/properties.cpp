// A device's attributes, and its properties (the same facts in one structure).
#include <algorithm>
#include <climits>
#include <cstring>

#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

struct DeviceField {
  CUdevice_attribute attribute;
  int cudaDeviceProp::*field;
};

constexpr DeviceField kDeviceFields[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, &cudaDeviceProp::regsPerBlock},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, &cudaDeviceProp::warpSize},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &cudaDeviceProp::maxThreadsPerBlock},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &cudaDeviceProp::major},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &cudaDeviceProp::minor},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &cudaDeviceProp::multiProcessorCount},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, &cudaDeviceProp::integrated},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, &cudaDeviceProp::canMapHostMemory},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, &cudaDeviceProp::maxTexture1D},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, &cudaDeviceProp::maxTexture1DMipmap},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, &cudaDeviceProp::maxTextureCubemap},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, &cudaDeviceProp::maxSurface1D},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH, &cudaDeviceProp::maxSurfaceCubemap},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, &cudaDeviceProp::concurrentKernels},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, &cudaDeviceProp::ECCEnabled},
    {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &cudaDeviceProp::pciBusID},
    {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &cudaDeviceProp::pciDeviceID},
    {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &cudaDeviceProp::pciDomainID},
    {CU_DEVICE_ATTRIBUTE_TCC_DRIVER, &cudaDeviceProp::tccDriver},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, &cudaDeviceProp::asyncEngineCount},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, &cudaDeviceProp::unifiedAddressing},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &cudaDeviceProp::memoryBusWidth},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &cudaDeviceProp::l2CacheSize},
    {CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, &cudaDeviceProp::persistingL2CacheMaxSize},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &cudaDeviceProp::maxThreadsPerMultiProcessor},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, &cudaDeviceProp::streamPrioritiesSupported},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, &cudaDeviceProp::globalL1CacheSupported},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, &cudaDeviceProp::localL1CacheSupported},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, &cudaDeviceProp::regsPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, &cudaDeviceProp::managedMemory},
    {CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, &cudaDeviceProp::isMultiGpuBoard},
    {CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID, &cudaDeviceProp::multiGpuBoardGroupID},
    {CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, &cudaDeviceProp::hostNativeAtomicSupported},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, &cudaDeviceProp::pageableMemoryAccess},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, &cudaDeviceProp::concurrentManagedAccess},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, &cudaDeviceProp::computePreemptionSupported},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
     &cudaDeviceProp::canUseHostPointerForRegisteredMem},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, &cudaDeviceProp::cooperativeLaunch},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
     &cudaDeviceProp::pageableMemoryAccessUsesHostPageTables},
    {CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
     &cudaDeviceProp::directManagedMemAccessFromHost},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, &cudaDeviceProp::maxBlocksPerMultiProcessor},
    {CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, &cudaDeviceProp::accessPolicyMaxWindowSize},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, &cudaDeviceProp::hostRegisterSupported},
    {CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, &cudaDeviceProp::sparseCudaArraySupported},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, &cudaDeviceProp::hostRegisterReadOnlySupported},
    {CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED,
     &cudaDeviceProp::timelineSemaphoreInteropSupported},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, &cudaDeviceProp::memoryPoolsSupported},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, &cudaDeviceProp::gpuDirectRDMASupported},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, &cudaDeviceProp::gpuDirectRDMAWritesOrdering},
    {CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
     &cudaDeviceProp::deferredMappingCudaArraySupported},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, &cudaDeviceProp::ipcEventSupported},
    {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, &cudaDeviceProp::clusterLaunch},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, &cudaDeviceProp::unifiedFunctionPointers},
    {CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, &cudaDeviceProp::deviceNumaConfig},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, &cudaDeviceProp::deviceNumaId},
    {CU_DEVICE_ATTRIBUTE_MPS_ENABLED, &cudaDeviceProp::mpsEnabled},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, &cudaDeviceProp::hostNumaId},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED, &cudaDeviceProp::hostNumaMultinodeIpcSupported},
};

// 0 for an attribute that this device does not know: it lacks the feature.
int attribute_of(int device, CUdevice_attribute which) {
  int value = 0;
  return cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

void fill(int* values, int device, std::initializer_list<CUdevice_attribute> attributes) {
  for (const CUdevice_attribute attribute : attributes) *values++ = attribute_of(device, attribute);
}

void fill_arrays(cudaDeviceProp* p, int device) {
  fill(p->maxThreadsDim, device,
       {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z});
  fill(p->maxGridSize, device,
       {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z});
  fill(p->maxTexture2D, device,
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT});
  fill(p->maxTexture2DMipmap, device,
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT});
  fill(p->maxTexture2DLinear, device,
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH});
  fill(p->maxTexture2DGather, device,
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT});
  fill(p->maxTexture3D, device,
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH});
  fill(p->maxTexture3DAlt, device,
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE});
  fill(p->maxTexture1DLayered, device,
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS});
  fill(p->maxTexture2DLayered, device,
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS});
  fill(p->maxTextureCubemapLayered, device,
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS});
  fill(p->maxSurface2D, device,
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT});
  fill(p->maxSurface3D, device,
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH});
  fill(p->maxSurface1DLayered, device,
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS});
  fill(p->maxSurface2DLayered, device,
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS});
  fill(p->maxSurfaceCubemapLayered, device,
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS});
}

CUresult properties(cudaDeviceProp* p, int device) {
  *p = {};
  CUresult result = cuDeviceGetName(p->name, sizeof p->name, device);
  if (result == CUDA_SUCCESS) result = cuDeviceGetUuid(same<CUuuid>(&p->uuid), device);
  if (result == CUDA_SUCCESS) result = cuDeviceTotalMem(&p->totalGlobalMem, device);
  if (result != CUDA_SUCCESS) return result;
  for (const DeviceField& field : kDeviceFields) p->*field.field = attribute_of(device, field.attribute);
  fill_arrays(p, device);
  p->sharedMemPerBlock = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  p->sharedMemPerBlockOptin = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  p->sharedMemPerMultiprocessor =
      attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  p->reservedSharedMemPerBlock = attribute_of(device, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  p->memPitch = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  p->totalConstMem = attribute_of(device, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  p->textureAlignment = attribute_of(device, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  p->texturePitchAlignment = attribute_of(device, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);
  p->surfaceAlignment = attribute_of(device, CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT);
  p->gpuDirectRDMAFlushWritesOptions =
      attribute_of(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
  p->memoryPoolSupportedHandleTypes =
      attribute_of(device, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
  p->gpuPciDeviceID = attribute_of(device, CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID);
  p->gpuPciSubsystemID = attribute_of(device, CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID);
  return CUDA_SUCCESS;
}

// How many of the wanted properties the device has.
int score(const cudaDeviceProp& has, const cudaDeviceProp& wanted) {
  int score = 0;
  if (wanted.name[0] && !std::strncmp(has.name, wanted.name, sizeof has.name)) score += 8;
  if (wanted.major > 0 &&
      (has.major > wanted.major || (has.major == wanted.major && has.minor >= wanted.minor)))
    score += 4;
  if (wanted.multiProcessorCount > 0 && has.multiProcessorCount >= wanted.multiProcessorCount) score += 2;
  if (wanted.totalGlobalMem > 0 && has.totalGlobalMem >= wanted.totalGlobalMem) score += 1;
  return score;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties_out, int device) {
  return run_without_context([&] {
    if (!properties_out) return cudaErrorInvalidValue;
    const cudaError_t error = is_device(device);
    return error == cudaSuccess ? as_error(properties(properties_out, device)) : error;
  });
}

// Attributes have the driver's numbers.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  static_assert(int{cudaDevAttrHostMemoryPoolsSupported} ==
                int{CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED});
  return run_without_context([&] {
    if (!value) return cudaErrorInvalidValue;
    const cudaError_t error = is_device(device);
    if (error != cudaSuccess) return error;
    return as_error(cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device));
  });
}

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* wanted) {
  return run_without_context([&] {
    if (!device || !wanted) return CUDA_ERROR_INVALID_VALUE;
    int count = 0, best = -1;
    CUresult result = cuDeviceGetCount(&count);
    for (int i = 0; i < count && result == CUDA_SUCCESS; i++) {
      cudaDeviceProp has;
      result = properties(&has, i);
      if (const int found = score(has, *wanted); result == CUDA_SUCCESS && found > best) {
        best = found;
        *device = i;
      }
    }
    return result;
  });
}
}
