// cuArray…: creation, description, destruction; memory_copy.cpp has the copies. Mipmaps, sparse arrays and
// planes are not built. Source: CUDA Driver API 13.0, "Memory Management".
#include <cuda.h>

#include "gpu_state/software/device/arrays.h"
#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/memory.h"
#include "gpu_state/software/device/work.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;

extern "C" {

CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (CUresult error = device::unsafe_while_capturing()) return error;
  if (!array || !descriptor) return CUDA_ERROR_INVALID_VALUE;
  if (const int injected = settings::injected("malloc"))
    return injected < 0 ? CUDA_ERROR_OUT_OF_MEMORY : static_cast<CUresult>(injected);
  return device::create_array(context->device->memory(), *descriptor, context, array);
}

CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* flat) {
  if (!flat) return cuArray3DCreate_v2(array, nullptr);
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  descriptor.Width = flat->Width;
  descriptor.Height = flat->Height;
  descriptor.Format = flat->Format;
  descriptor.NumChannels = flat->NumChannels;
  return cuArray3DCreate_v2(array, &descriptor);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUarray array) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  return descriptor ? device::describe_array(array, descriptor, nullptr) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* flat, CUarray array) {
  if (!flat) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (CUresult error = cuArray3DGetDescriptor_v2(&descriptor, array)) return error;
  flat->Width = descriptor.Width;
  flat->Height = descriptor.Height;
  flat->Format = descriptor.Format;
  flat->NumChannels = descriptor.NumChannels;
  return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray array) {
  CUcontext context, owner;
  if (CUresult error = device::enter(&context)) return error;
  if (CUresult error = device::unsafe_while_capturing()) return error;
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (CUresult error = device::describe_array(array, &descriptor, &owner)) return error;
  if (CUresult error = device::wait_for_all(owner)) return error;
  return device::destroy_array(array);
}

}  // extern "C"
