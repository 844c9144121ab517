// cuMemsetD…: values of 1, 2 and 4 bytes, in a row or a rectangle. Source: CUDA Driver API 13.0, "Memory
// Management".
#include <cuda.h>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/copies.h"
#include "gpu_state/software/driver/per_thread.h"

using namespace cropdl;

namespace {

CUresult set(CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width, size_t height,
             CUstream stream, bool asynchronous) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  device::MemsetWork work;
  work.destination = to;
  work.pitch = pitch;
  work.value = value;
  work.element = element;
  work.width = width;
  work.height = height;
  return device::fill(work, stream, asynchronous);
}

}  // namespace

extern "C" {

#define CROPDL_MEMSET(BITS, TYPE)                                                                     \
  CROPDL_CALL_WITHOUT_STREAM(cuMemsetD##BITS##_v2, (CUdeviceptr to, TYPE value, size_t count),        \
                             set(to, 0, value, BITS / 8, count, 1, stream, false))                    \
  CROPDL_CALL_WITH_STREAM(cuMemsetD##BITS##Async,                                                     \
                          (CUdeviceptr to, TYPE value, size_t count, CUstream stream),                \
                          set(to, 0, value, BITS / 8, count, 1, stream, true))                        \
  CROPDL_CALL_WITHOUT_STREAM(cuMemsetD2D##BITS##_v2,                                                  \
                             (CUdeviceptr to, size_t pitch, TYPE value, size_t width, size_t height), \
                             set(to, pitch, value, BITS / 8, width, height, stream, false))           \
  CROPDL_CALL_WITH_STREAM(                                                                            \
      cuMemsetD2D##BITS##Async,                                                                       \
      (CUdeviceptr to, size_t pitch, TYPE value, size_t width, size_t height, CUstream stream),       \
      set(to, pitch, value, BITS / 8, width, height, stream, true))

CROPDL_MEMSET(8, unsigned char)
CROPDL_MEMSET(16, unsigned short)
CROPDL_MEMSET(32, unsigned)

}  // extern "C"
