// Device management: the current device, its flags, limits and configuration. Sources: CUDA Runtime API 13.0,
// "Device Management", "Peer Device Memory Access".
#include <cudaProfiler.h>

#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

constexpr unsigned kDeviceFlags = cudaDeviceMask | cudaDeviceSyncMemops;

// The flags of the primary context are the runtime's device flags; cudaDeviceMapHost is always on.
cudaError_t set_flags(int device, unsigned flags) {
  if (flags & ~kDeviceFlags) return cudaErrorInvalidValue;
  const unsigned schedule = flags & cudaDeviceScheduleMask;
  if (schedule & (schedule - 1)) return cudaErrorInvalidValue;
  return as_error(cuDevicePrimaryCtxSetFlags(device, flags & ~cudaDeviceMapHost));
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (!count) return answer(cudaErrorInvalidValue);
  *count = 0;
  return run_without_context([&] {
    const CUresult result = cuDeviceGetCount(count);
    return result == CUDA_SUCCESS && *count == 0 ? CUDA_ERROR_NO_DEVICE : result;
  });
}

cudaError_t cudaSetDevice(int device) {
  return run_without_context([&] { return choose_device(device); });
}

cudaError_t cudaGetDevice(int* device) {
  if (!device) return answer(cudaErrorInvalidValue);
  return run_without_context([&] {
    *device = current_device();
    return cudaSuccess;
  });
}

// Makes the device's context, but does not make it current.
cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
  return run_without_context([&] {
    if (flags & ~static_cast<unsigned>(cudaInitDeviceFlagsAreValid)) return cudaErrorInvalidValue;
    if (const cudaError_t error = is_device(device); error != cudaSuccess) return error;
    if (flags & cudaInitDeviceFlagsAreValid)
      if (const cudaError_t error = set_flags(device, device_flags); error != cudaSuccess) return error;
    CUcontext context = nullptr;
    return primary_context(device, &context);
  });
}

cudaError_t cudaSetValidDevices(int* devices, int count) {
  return run_without_context([&] {
    if (count < 0 || (count && !devices)) return cudaErrorInvalidValue;
    for (int i = 0; i < count; i++) {
      if (is_device(devices[i]) != cudaSuccess) return cudaErrorInvalidDevice;
      for (int j = 0; j < i; j++)
        if (devices[i] == devices[j]) return cudaErrorInvalidValue;
    }
    prefer_device(count ? devices[0] : 0);  // the first device that works; here all work
    return cudaSuccess;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return run_without_context([&] { return set_flags(current_device(), flags); });
}

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  if (!flags) return answer(cudaErrorInvalidValue);
  return run_without_context([&] {
    CUcontext context = nullptr;
    CUresult result = cuCtxGetCurrent(&context);
    if (result != CUDA_SUCCESS) return result;
    if (context) {
      result = cuCtxGetFlags(flags);
    } else {
      int active = 0;
      result = cuDevicePrimaryCtxGetState(current_device(), flags, &active);
    }
    *flags |= cudaDeviceMapHost;
    return result;
  });
}

cudaError_t cudaDeviceReset() {
  return run_without_context([] { return reset_device(current_device()); });
}

cudaError_t cudaDeviceSynchronize() {
  return run([] { return cuCtxSynchronize(); });
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return run([&] { return cuCtxSetLimit(static_cast<CUlimit>(limit), value); });
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  return run([&] { return cuCtxGetLimit(value, static_cast<CUlimit>(limit)); });
}

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  return run([&] { return cuCtxGetCacheConfig(reinterpret_cast<CUfunc_cache*>(config)); });
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
  return run([&] { return cuCtxSetCacheConfig(static_cast<CUfunc_cache>(config)); });
}

cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  return run([&] { return cuCtxGetSharedMemConfig(reinterpret_cast<CUsharedconfig*>(config)); });
}

cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config) {
  return run([&] { return cuCtxSetSharedMemConfig(static_cast<CUsharedconfig>(config)); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return run([&] { return cuCtxGetStreamPriorityRange(least, greatest); });
}

cudaError_t cudaCtxResetPersistingL2Cache() {
  return run([] { return cuCtxResetPersistingL2Cache(); });
}

cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTarget target,
                                               cudaFlushGPUDirectRDMAWritesScope scope) {
  return run([&] {
    return cuFlushGPUDirectRDMAWrites(static_cast<CUflushGPUDirectRDMAWritesTarget>(target),
                                      static_cast<CUflushGPUDirectRDMAWritesScope>(scope));
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* id) {
  return run_without_context([&] { return cuDeviceGetByPCIBusId(device, id); });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return run_without_context([&] { return cuDeviceGetPCIBusId(id, length, device); });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return run_without_context([&] { return cuDeviceCanAccessPeer(can, device, peer); });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return run([&] {
    if (flags) return cudaErrorInvalidValue;
    CUcontext context = nullptr;
    const cudaError_t error = primary_context(peer, &context);
    return error == cudaSuccess ? as_error(cuCtxEnablePeerAccess(context, 0)) : error;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return run([&] {
    CUcontext context = nullptr;
    const cudaError_t error = primary_context(peer, &context);
    return error == cudaSuccess ? as_error(cuCtxDisablePeerAccess(context)) : error;
  });
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int source, int destination) {
  return run_without_context([&] {
    return cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attribute), source, destination);
  });
}

cudaError_t cudaDeviceGetP2PAtomicCapabilities(unsigned* capabilities, const cudaAtomicOperation* operations,
                                               unsigned count, int source, int destination) {
  return run_without_context([&] {
    return cuDeviceGetP2PAtomicCapabilities(
        capabilities, reinterpret_cast<const CUatomicOperation*>(operations), count, source, destination);
  });
}

cudaError_t cudaDeviceGetHostAtomicCapabilities(unsigned* capabilities, const cudaAtomicOperation* operations,
                                                unsigned count, int device) {
  return run_without_context([&] {
    return cuDeviceGetHostAtomicCapabilities(
        capabilities, reinterpret_cast<const CUatomicOperation*>(operations), count, device);
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  if (!version) return answer(cudaErrorInvalidValue);
  return answer(cuDriverGetVersion(version));
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (!version) return answer(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaProfilerStart() {
  return run([] { return cuProfilerStart(); });
}

cudaError_t cudaProfilerStop() {
  return run([] { return cuProfilerStop(); });
}
}
