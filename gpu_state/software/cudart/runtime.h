// What every function of the runtime needs: the calling thread's device and last error, the device's primary
// context made on first use, and the way from the driver's answer to the runtime's. The runtime is thin over
// the public driver API, as NVIDIA's is: its handles are the driver's handles under other names. Any thread.
// Sources: CUDA Runtime API 13.0, "Error Handling", "Device Management", "Interactions with the CUDA Driver
// API".
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace cropdl::cudart {

// The numbers of both APIs are the same where both have the error.
inline cudaError_t as_error(CUresult result) { return static_cast<cudaError_t>(result); }
inline cudaError_t as_error(cudaError_t error) { return error; }

// Brings the driver up, once. Every later call answers as the first.
cudaError_t start();

// start(), and a context for the calling thread: the one that is current, else the primary context of the
// thread's device, which is made current. Also after cudaDeviceReset.
cudaError_t enter();

// Remembers the error for cudaGetLastError and returns it. Success and cudaErrorNotReady, which is no error,
// leave what is remembered alone.
cudaError_t answer(cudaError_t error);
inline cudaError_t answer(CUresult result) { return answer(as_error(result)); }

// Errors that break a context: they are reported by every later call.
bool is_sticky(cudaError_t error);

// A function of the runtime: enters, does, remembers. `Do` returns CUresult or cudaError_t.
template <class Do>
cudaError_t run(Do&& what) {
  const cudaError_t error = enter();
  return answer(error == cudaSuccess ? as_error(what()) : error);
}

// The same for one that needs no context.
template <class Do>
cudaError_t run_without_context(Do&& what) {
  const cudaError_t error = start();
  return answer(error == cudaSuccess ? as_error(what()) : error);
}

// The device that the calling thread's calls go to. After start().
int current_device();
cudaError_t is_device(int ordinal);  // cudaErrorInvalidDevice

// The context in which the runtime works on that device: retained. After start().
cudaError_t primary_context(int device, CUcontext* context);

// What a call that has nothing to do answers: the error that broke the context, if one did. After enter().
CUresult nothing_to_do();

inline CUdeviceptr as_device(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
inline void* as_pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// Where both APIs have the same structure under two names.
template <class To, class From>
To* same(From* from) {
  static_assert(sizeof(To) == sizeof(From));
  return reinterpret_cast<To*>(from);
}

}  // namespace cropdl::cudart
