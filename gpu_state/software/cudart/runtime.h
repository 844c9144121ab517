// Common to all functions of the runtime: the calling thread's device and last error, the device's primary
// context (made on first use), and the conversion of the driver's results. Like NVIDIA's, the runtime is a
// thin layer over the public driver API: its handles are the driver's under other names. Any thread. Sources:
// CUDA Runtime API 13.0, "Error Handling", "Device Management", "Interactions with the CUDA Driver API".
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace cropdl::cudart {

// Errors that both APIs have use the same numbers.
inline cudaError_t as_error(CUresult result) { return static_cast<cudaError_t>(result); }
inline cudaError_t as_error(cudaError_t error) { return error; }

// Initialises the driver, once. Later calls return the first result.
cudaError_t start();

// start(), then makes a context current: keeps the current one, otherwise takes the primary context of the
// thread's device. Also after cudaDeviceReset.
cudaError_t enter();

// Stores the error for cudaGetLastError and returns it. Success and cudaErrorNotReady, which is not an error,
// do not change the stored one.
cudaError_t answer(cudaError_t error);
inline cudaError_t answer(CUresult result) { return answer(as_error(result)); }

// Errors that break a context: every later call returns them.
bool is_sticky(cudaError_t error);

// A function of the runtime: enter(), `Do`, answer(). `Do` returns CUresult or cudaError_t.
template <class Do>
cudaError_t run(Do&& what) {
  const cudaError_t error = enter();
  return answer(error == cudaSuccess ? as_error(what()) : error);
}

// The same for a function that needs no context.
template <class Do>
cudaError_t run_without_context(Do&& what) {
  const cudaError_t error = start();
  return answer(error == cudaSuccess ? as_error(what()) : error);
}

// The device used by the calling thread's calls. After start().
int current_device();
cudaError_t is_device(int ordinal);  // cudaErrorInvalidDevice

// The runtime's context on that device, retained. After start().
cudaError_t primary_context(int device, CUcontext* context);

// Device management changes the calling thread's device (devices.cpp). After start(). Makes it the thread's
// device, and its primary context current.
cudaError_t choose_device(int device);
// Makes it the thread's device until one is chosen.
void prefer_device(int device);
// Destroys its primary context with everything in it. The next call that needs one makes a new one.
cudaError_t reset_device(int device);

// The result of a call that has nothing to do: the error that broke the context, if any. After enter().
CUresult nothing_to_do();

inline CUdeviceptr as_device(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
inline void* as_pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// For structures that both APIs have under different names.
template <class To, class From>
To* same(From* from) {
  static_assert(sizeof(To) == sizeof(From));
  return reinterpret_cast<To*>(from);
}

}  // namespace cropdl::cudart
