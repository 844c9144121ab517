// Turns the runtime's descriptions of copies into the driver's (copies.h).
#include "gpu_state/software/cudart/copies.h"

#include <initializer_list>

#include "gpu_state/software/cudart/runtime.h"
#include "gpu_state/software/cudart/symbols.h"

namespace cropdl::cudart {
namespace {

void set_side(CUDA_MEMCPY2D* copy, bool source, CUmemorytype type, const void* pointer, size_t pitch) {
  if (source) {
    copy->srcMemoryType = type;
    copy->srcPitch = pitch;
    if (type == CU_MEMORYTYPE_HOST)
      copy->srcHost = pointer;
    else
      copy->srcDevice = as_device(pointer);
  } else {
    copy->dstMemoryType = type;
    copy->dstPitch = pitch;
    if (type == CU_MEMORYTYPE_HOST)
      copy->dstHost = const_cast<void*>(pointer);
    else
      copy->dstDevice = as_device(pointer);
  }
}

// No row may be wider than the pitch, even if there is only one row.
bool is_pitch_too_small(size_t pitch, size_t width) { return pitch < width; }
bool is_pitch_too_small(size_t pitch, size_t from, size_t width) {
  return pitch < from || pitch - from < width;
}

CUresult format_bytes(CUarray_format format, size_t* bytes) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      *bytes = 1;
      return CUDA_SUCCESS;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      *bytes = 2;
      return CUDA_SUCCESS;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      *bytes = 4;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// For the two 3D structures, which have common fields of the same names.
template <class Copy, class Parms>
cudaError_t fill(const Parms& parms, const Sides& sides, Copy* copy) {
  size_t element = 1;
  for (const cudaArray_t array : {parms.srcArray, parms.dstArray})
    if (array) {
      const CUresult result = element_bytes(as_array(array), &element);
      if (result != CUDA_SUCCESS) return as_error(result);
    }
  if (__builtin_mul_overflow(parms.extent.width, element, &copy->WidthInBytes) ||
      __builtin_mul_overflow(parms.srcPos.x, parms.srcArray ? element : 1, &copy->srcXInBytes) ||
      __builtin_mul_overflow(parms.dstPos.x, parms.dstArray ? element : 1, &copy->dstXInBytes))
    return cudaErrorInvalidValue;
  copy->Height = parms.extent.height;
  copy->Depth = parms.extent.depth;
  copy->srcY = parms.srcPos.y;
  copy->srcZ = parms.srcPos.z;
  copy->dstY = parms.dstPos.y;
  copy->dstZ = parms.dstPos.z;
  // Each side must be given as exactly one of array and pointer.
  if ((parms.srcArray != nullptr) == (parms.srcPtr.ptr != nullptr)) return cudaErrorInvalidValue;
  if ((parms.dstArray != nullptr) == (parms.dstPtr.ptr != nullptr)) return cudaErrorInvalidValue;
  copy->srcMemoryType = parms.srcArray ? CU_MEMORYTYPE_ARRAY : sides.source;
  copy->dstMemoryType = parms.dstArray ? CU_MEMORYTYPE_ARRAY : sides.destination;
  copy->srcArray = as_array(parms.srcArray);
  copy->dstArray = as_array(parms.dstArray);
  if (!parms.srcArray) {
    if (is_pitch_too_small(parms.srcPtr.pitch, copy->srcXInBytes, copy->WidthInBytes))
      return cudaErrorInvalidPitchValue;
    copy->srcHost = parms.srcPtr.ptr;
    copy->srcDevice = as_device(parms.srcPtr.ptr);
    copy->srcPitch = parms.srcPtr.pitch;
    copy->srcHeight = parms.srcPtr.ysize;
  }
  if (!parms.dstArray) {
    if (is_pitch_too_small(parms.dstPtr.pitch, copy->dstXInBytes, copy->WidthInBytes))
      return cudaErrorInvalidPitchValue;
    copy->dstHost = parms.dstPtr.ptr;
    copy->dstDevice = as_device(parms.dstPtr.ptr);
    copy->dstPitch = parms.dstPtr.pitch;
    copy->dstHeight = parms.dstPtr.ysize;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t sides_of(cudaMemcpyKind kind, Sides* sides) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      *sides = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST};
      return cudaSuccess;
    case cudaMemcpyHostToDevice:
      *sides = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE};
      return cudaSuccess;
    case cudaMemcpyDeviceToHost:
      *sides = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST};
      return cudaSuccess;
    case cudaMemcpyDeviceToDevice:
      *sides = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE};
      return cudaSuccess;
    case cudaMemcpyDefault:
      *sides = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED};
      return cudaSuccess;
  }
  return cudaErrorInvalidMemcpyDirection;
}

CUresult element_bytes(CUarray array, size_t* bytes) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  CUresult result = cuArray3DGetDescriptor(&descriptor, array);
  if (result == CUDA_SUCCESS) result = format_bytes(descriptor.Format, bytes);
  *bytes *= descriptor.NumChannels;
  return result;
}

cudaError_t as_copy(const cudaMemcpy3DParms& parms, CUDA_MEMCPY3D* copy) {
  *copy = {};
  Sides sides;
  const cudaError_t error = sides_of(parms.kind, &sides);
  return error == cudaSuccess ? fill(parms, sides, copy) : error;
}

cudaError_t as_peer_copy(const cudaMemcpy3DPeerParms& parms, CUDA_MEMCPY3D_PEER* copy) {
  *copy = {};
  cudaError_t error = primary_context(parms.srcDevice, &copy->srcContext);
  if (error == cudaSuccess) error = primary_context(parms.dstDevice, &copy->dstContext);
  return error == cudaSuccess ? fill(parms, {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE}, copy) : error;
}

cudaError_t as_copy(void* destination, size_t destination_pitch, const void* source, size_t source_pitch,
                    size_t width, size_t height, cudaMemcpyKind kind, CUDA_MEMCPY2D* copy) {
  *copy = {};
  Sides sides;
  if (const cudaError_t error = sides_of(kind, &sides); error != cudaSuccess) return error;
  if (is_pitch_too_small(destination_pitch, width) || is_pitch_too_small(source_pitch, width))
    return cudaErrorInvalidPitchValue;
  set_side(copy, true, sides.source, source, source_pitch);
  set_side(copy, false, sides.destination, destination, destination_pitch);
  copy->WidthInBytes = width;
  copy->Height = height;
  return cudaSuccess;
}

cudaError_t as_copy(ArrayPlace destination, const void* source, size_t pitch, size_t width, size_t height,
                    cudaMemcpyKind kind, CUDA_MEMCPY2D* copy) {
  *copy = {};
  Sides sides;
  if (const cudaError_t error = sides_of(kind, &sides); error != cudaSuccess) return error;
  if (sides.destination == CU_MEMORYTYPE_HOST) return cudaErrorInvalidMemcpyDirection;
  if (is_pitch_too_small(pitch, width)) return cudaErrorInvalidPitchValue;
  set_side(copy, true, sides.source, source, pitch);
  copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy->dstArray = destination.array;
  copy->dstXInBytes = destination.x;
  copy->dstY = destination.y;
  copy->WidthInBytes = width;
  copy->Height = height;
  return cudaSuccess;
}

cudaError_t as_copy(void* destination, size_t pitch, ArrayPlace source, size_t width, size_t height,
                    cudaMemcpyKind kind, CUDA_MEMCPY2D* copy) {
  *copy = {};
  Sides sides;
  if (const cudaError_t error = sides_of(kind, &sides); error != cudaSuccess) return error;
  if (sides.source == CU_MEMORYTYPE_HOST) return cudaErrorInvalidMemcpyDirection;
  if (is_pitch_too_small(pitch, width)) return cudaErrorInvalidPitchValue;
  set_side(copy, false, sides.destination, destination, pitch);
  copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy->srcArray = source.array;
  copy->srcXInBytes = source.x;
  copy->srcY = source.y;
  copy->WidthInBytes = width;
  copy->Height = height;
  return cudaSuccess;
}

cudaError_t part_of_variable(const void* symbol, size_t offset, size_t count, cudaMemcpyKind kind, bool to,
                             CUdeviceptr* address) {
  Sides sides;
  cudaError_t error = sides_of(kind, &sides);
  if (error != cudaSuccess) return error;
  if ((to ? sides.destination : sides.source) == CU_MEMORYTYPE_HOST) return cudaErrorInvalidMemcpyDirection;
  size_t size = 0;
  error = variable_of(symbol, address, &size);
  if (error != cudaSuccess) return error;
  if (offset > size || count > size - offset) return cudaErrorInvalidValue;
  *address += offset;
  return cudaSuccess;
}

}  // namespace cropdl::cudart
