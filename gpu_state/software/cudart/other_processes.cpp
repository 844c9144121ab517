// Functions for other processes, and reports of the driver: passed on to the driver.
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

CUlogIterator* as_iterator(cudaLogIterator* iterator) { return reinterpret_cast<CUlogIterator*>(iterator); }

}  // namespace

extern "C" {

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  return run([&] { return cuIpcGetEventHandle(same<CUipcEventHandle>(handle), event); });
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return run([&] { return cuIpcOpenEventHandle(event, *same<CUipcEventHandle>(&handle)); });
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  return run([&] { return cuIpcGetMemHandle(same<CUipcMemHandle>(handle), as_device(pointer)); });
}

cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags) {
  return run([&] {
    if (!pointer) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr address = 0;
    const CUresult result = cuIpcOpenMemHandle(&address, *same<CUipcMemHandle>(&handle), flags);
    if (result == CUDA_SUCCESS) *pointer = as_pointer(address);
    return result;
  });
}

cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  return run([&] { return cuIpcCloseMemHandle(as_device(pointer)); });
}

cudaError_t cudaDeviceRegisterAsyncNotification(int device, cudaAsyncCallback callback, void* data,
                                                cudaAsyncCallbackHandle_t* handle) {
  return run([&] {
    return cuDeviceRegisterAsyncNotification(device, reinterpret_cast<CUasyncCallback>(callback), data,
                                             reinterpret_cast<CUasyncCallbackHandle*>(handle));
  });
}

cudaError_t cudaDeviceUnregisterAsyncNotification(int device, cudaAsyncCallbackHandle_t handle) {
  return run([&] {
    return cuDeviceUnregisterAsyncNotification(device, reinterpret_cast<CUasyncCallbackHandle>(handle));
  });
}

cudaError_t cudaLogsRegisterCallback(cudaLogsCallback_t callback, void* data,
                                     cudaLogsCallbackHandle* handle) {
  return run_without_context([&] {
    return cuLogsRegisterCallback(reinterpret_cast<CUlogsCallback>(callback), data,
                                  reinterpret_cast<CUlogsCallbackHandle*>(handle));
  });
}

cudaError_t cudaLogsUnregisterCallback(cudaLogsCallbackHandle handle) {
  return run_without_context(
      [&] { return cuLogsUnregisterCallback(reinterpret_cast<CUlogsCallbackHandle>(handle)); });
}

cudaError_t cudaLogsCurrent(cudaLogIterator* iterator, unsigned flags) {
  return run_without_context([&] { return cuLogsCurrent(as_iterator(iterator), flags); });
}

cudaError_t cudaLogsDumpToFile(cudaLogIterator* iterator, const char* path, unsigned flags) {
  return run_without_context([&] { return cuLogsDumpToFile(as_iterator(iterator), path, flags); });
}

cudaError_t cudaLogsDumpToMemory(cudaLogIterator* iterator, char* buffer, size_t* size, unsigned flags) {
  return run_without_context([&] { return cuLogsDumpToMemory(as_iterator(iterator), buffer, size, flags); });
}
}
