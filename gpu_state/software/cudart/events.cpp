// Creation and destruction of streams and events. Work in streams is in streamed/.
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return run([&] { return cuStreamCreate(stream, CU_STREAM_DEFAULT); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  static_assert(cudaStreamNonBlocking == CU_STREAM_NON_BLOCKING);
  return run([&] { return cuStreamCreate(stream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return run([&] { return cuStreamCreateWithPriority(stream, flags, priority); });
}

// The default streams cannot be destroyed.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return run([&] {
    if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
      return CUDA_ERROR_INVALID_HANDLE;
    return cuStreamDestroy(stream);
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return run([&] { return cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)); });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return run([&] { return cuEventCreate(event, CU_EVENT_DEFAULT); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  static_assert(cudaEventBlockingSync == CU_EVENT_BLOCKING_SYNC &&
                cudaEventDisableTiming == CU_EVENT_DISABLE_TIMING &&
                cudaEventInterprocess == CU_EVENT_INTERPROCESS);
  return run([&] { return cuEventCreate(event, flags); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return run([&] { return cuEventQuery(event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return run([&] { return cuEventSynchronize(event); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return run([&] { return cuEventDestroy(event); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return run([&] { return cuEventElapsedTime(milliseconds, start, end); });
}
}
