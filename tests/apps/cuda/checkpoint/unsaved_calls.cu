// nvcc: -std=c++17 -lcuda
// run: ways=static
// Makes one call of each function that its arguments name, before its first step. These functions share
// memory or events with other processes and libraries, or make textures. A device may lack them, so what a
// call returns does not matter.
#include <cuda.h>

#include <functional>
#include <map>
#include <string>

#include "saved.h"

__global__ void add(unsigned* values, unsigned step) { values[threadIdx.x] += step * threadIdx.x; }

static CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  const Buffer<unsigned> values(std::vector<unsigned>(256, 1));
  cudaEvent_t event, other_event;
  CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  void* other = nullptr;
  void* const no_handle = reinterpret_cast<void*>(-1);  // no descriptor
  int fd = -1;
  cudaMemPool_t pool, other_pool;
  CALL(cudaDeviceGetDefaultMemPool(&pool, 0));
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle physical, shared;
  EXPECT(cuMemCreate(&physical, 2 << 20, &properties, 0) == CUDA_SUCCESS);
  cudaIpcMemHandle_t memory_of_runtime = {};
  cudaIpcEventHandle_t event_of_runtime = {};
  CUipcMemHandle memory_of_driver = {};
  CUipcEventHandle event_of_driver = {};
  CUdeviceptr opened;
  CUevent opened_event;
  CUmemoryPool opened_pool;
  cudaMemPoolPtrExportData exported = {};
  CUmemPoolPtrExportData exported_by_driver = {};
  const cudaMemAllocationHandleType by_fd = cudaMemHandleTypePosixFileDescriptor;
  const CUmemAllocationHandleType driver_by_fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmulticastObjectProp several = {};
  several.numDevices = 1;
  several.size = 2 << 20;
  several.handleTypes = driver_by_fd;
  cudaExternalMemory_t imported;
  cudaExternalSemaphore_t imported_semaphore;
  CUexternalMemory driver_imported;
  CUexternalSemaphore driver_imported_semaphore;
  const cudaExternalMemoryHandleDesc no_memory = {};
  const cudaExternalSemaphoreHandleDesc no_semaphore = {};
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC driver_no_memory = {};
  const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC driver_no_semaphore = {};
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear = {values.data, cudaCreateChannelDesc<unsigned>(), 1024};
  const cudaTextureDesc how = {};
  cudaTextureObject_t texture;
  cudaSurfaceObject_t surface;
  CUDA_RESOURCE_DESC driver_resource = {};
  driver_resource.resType = CU_RESOURCE_TYPE_LINEAR;
  driver_resource.res.linear = {address(values.data), CU_AD_FORMAT_UNSIGNED_INT32, 1, 1024};
  const CUDA_TEXTURE_DESC driver_how = {};

#define BY_NAME(name, ...)                               \
  {                                                      \
#name, [&] { static_cast<void>(name(__VA_ARGS__)); } \
  }
  const std::map<std::string, std::function<void()>> calls = {
      BY_NAME(cudaIpcGetMemHandle, &memory_of_runtime, values.data),
      BY_NAME(cudaIpcOpenMemHandle, &other, memory_of_runtime, cudaIpcMemLazyEnablePeerAccess),
      BY_NAME(cudaIpcCloseMemHandle, values.data),
      BY_NAME(cudaIpcGetEventHandle, &event_of_runtime, event),
      BY_NAME(cudaIpcOpenEventHandle, &other_event, event_of_runtime),
      BY_NAME(cudaMemPoolExportToShareableHandle, &fd, pool, by_fd, 0),
      BY_NAME(cudaMemPoolImportFromShareableHandle, &other_pool, no_handle, by_fd, 0),
      BY_NAME(cudaMemPoolExportPointer, &exported, values.data),
      BY_NAME(cudaMemPoolImportPointer, &other, pool, &exported),
      BY_NAME(cuIpcGetMemHandle, &memory_of_driver, address(values.data)),
      {"cuIpcOpenMemHandle_v2",
       [&] {
         static_cast<void>(cuIpcOpenMemHandle(&opened, memory_of_driver, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
       }},
      BY_NAME(cuIpcGetEventHandle, &event_of_driver, event),
      BY_NAME(cuIpcOpenEventHandle, &opened_event, event_of_driver),
      BY_NAME(cuMemExportToShareableHandle, &fd, physical, driver_by_fd, 0),
      BY_NAME(cuMemImportFromShareableHandle, &shared, no_handle, driver_by_fd),
      BY_NAME(cuMemPoolExportToShareableHandle, &fd, pool, driver_by_fd, 0),
      BY_NAME(cuMemPoolImportFromShareableHandle, &opened_pool, no_handle, driver_by_fd, 0),
      BY_NAME(cuMemPoolExportPointer, &exported_by_driver, address(values.data)),
      BY_NAME(cuMemPoolImportPointer, &opened, pool, &exported_by_driver),
      BY_NAME(cuMulticastCreate, &shared, &several),
      BY_NAME(cudaImportExternalMemory, &imported, &no_memory),
      BY_NAME(cudaImportExternalSemaphore, &imported_semaphore, &no_semaphore),
      BY_NAME(cuImportExternalMemory, &driver_imported, &driver_no_memory),
      BY_NAME(cuImportExternalSemaphore, &driver_imported_semaphore, &driver_no_semaphore),
      BY_NAME(cudaCreateTextureObject, &texture, &resource, &how, nullptr),
      BY_NAME(cudaCreateSurfaceObject, &surface, &resource),
      BY_NAME(cuTexObjectCreate, &texture, &driver_resource, &driver_how, nullptr),
      BY_NAME(cuSurfObjectCreate, &surface, &driver_resource),
  };
  for (int i = 1; i < argc && argv[i][0] != '-'; i++) {
    calls.at(argv[i])();
    cudaGetLastError();
  }
  while (steplog_done < steplog_steps) {
    add<<<1, 256>>>(values, static_cast<unsigned>(steplog_done));
    LAUNCHED();
    mix(values.host());
    steplog_step();
  }
  nonce.back();
  steplog_ok();
  return 0;
}
