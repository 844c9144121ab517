// CUDA arrays: memory in a device-specific layout. Only formats of plain channels are supported, since no
// instruction could read the others. Source: CUDA Runtime API 13.0, "Memory Management".
#include "gpu_state/software/cudart/copies.h"
#include "gpu_state/software/cudart/runtime.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl::cudart;

namespace {

struct Format {
  CUarray_format format;
  cudaChannelFormatKind kind;
  int bits;
};
constexpr Format kFormats[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, cudaChannelFormatKindUnsigned, 8},
    {CU_AD_FORMAT_UNSIGNED_INT16, cudaChannelFormatKindUnsigned, 16},
    {CU_AD_FORMAT_UNSIGNED_INT32, cudaChannelFormatKindUnsigned, 32},
    {CU_AD_FORMAT_SIGNED_INT8, cudaChannelFormatKindSigned, 8},
    {CU_AD_FORMAT_SIGNED_INT16, cudaChannelFormatKindSigned, 16},
    {CU_AD_FORMAT_SIGNED_INT32, cudaChannelFormatKindSigned, 32},
    {CU_AD_FORMAT_HALF, cudaChannelFormatKindFloat, 16},
    {CU_AD_FORMAT_FLOAT, cudaChannelFormatKindFloat, 32},
};

// All channels have the width of the first; there are one, two or four.
cudaError_t as_format(const cudaChannelFormatDesc& channels, CUarray_format* format, unsigned* count) {
  if (channels.f > cudaChannelFormatKindNone) {
    cropdl::settings::say_not_built("a CUDA array of a normalized, compressed or planar format");
    return cudaErrorNotSupported;
  }
  const int bits[4] = {channels.x, channels.y, channels.z, channels.w};
  unsigned used = 0;
  while (used < 4 && bits[used]) used++;
  for (unsigned i = 0; i < 4; i++)
    if (bits[i] != (i < used ? bits[0] : 0)) return cudaErrorInvalidChannelDescriptor;
  if (used != 1 && used != 2 && used != 4) return cudaErrorInvalidChannelDescriptor;
  for (const Format& one : kFormats)
    if (one.kind == channels.f && one.bits == bits[0]) {
      *format = one.format;
      *count = used;
      return cudaSuccess;
    }
  return cudaErrorInvalidChannelDescriptor;
}

cudaError_t describe(const CUDA_ARRAY3D_DESCRIPTOR& array, cudaChannelFormatDesc* channels) {
  for (const Format& one : kFormats)
    if (one.format == array.Format) {
      const auto bits = [&](unsigned channel) { return array.NumChannels > channel ? one.bits : 0; };
      *channels = {bits(0), bits(1), bits(2), bits(3), one.kind};
      return cudaSuccess;
    }
  return cudaErrorNotSupported;
}

cudaError_t as_descriptor(const cudaChannelFormatDesc* channels, const cudaExtent& extent, unsigned flags,
                          CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  static_assert(cudaArrayLayered == CUDA_ARRAY3D_LAYERED &&
                cudaArrayTextureGather == CUDA_ARRAY3D_TEXTURE_GATHER);
  if (!channels) return cudaErrorInvalidValue;
  *descriptor = {};
  descriptor->Width = extent.width;
  descriptor->Height = extent.height;
  descriptor->Depth = extent.depth;
  descriptor->Flags = flags;
  return as_format(*channels, &descriptor->Format, &descriptor->NumChannels);
}

cudaError_t allocate(cudaArray_t* array, const cudaChannelFormatDesc* channels, const cudaExtent& extent,
                     unsigned flags) {
  return run([&] {
    if (!array) return cudaErrorInvalidValue;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    const cudaError_t error = as_descriptor(channels, extent, flags, &descriptor);
    return error == cudaSuccess ? as_error(cuArray3DCreate(reinterpret_cast<CUarray*>(array), &descriptor))
                                : error;
  });
}

CUmipmappedArray as_mipmapped(cudaMipmappedArray_const_t array) {
  return reinterpret_cast<CUmipmappedArray>(const_cast<cudaMipmappedArray_t>(array));
}

}  // namespace

extern "C" {

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* channels, cudaArray_const_t array) {
  return run([&] {
    if (!channels) return cudaErrorInvalidValue;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    const CUresult result = cuArray3DGetDescriptor(&descriptor, as_array(array));
    return result == CUDA_SUCCESS ? describe(descriptor, channels) : as_error(result);
  });
}

cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* channels, cudaExtent* extent, unsigned* flags,
                             cudaArray_t array) {
  return run([&] {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    const CUresult result = cuArray3DGetDescriptor(&descriptor, as_array(array));
    if (result != CUDA_SUCCESS) return as_error(result);
    if (extent) *extent = {descriptor.Width, descriptor.Height, descriptor.Depth};
    if (flags) *flags = descriptor.Flags;
    return channels ? describe(descriptor, channels) : cudaSuccess;
  });
}

cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* channels, size_t width,
                            size_t height, unsigned flags) {
  return allocate(array, channels, {width, height, 0}, flags);
}

cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* channels, cudaExtent extent,
                              unsigned flags) {
  return allocate(array, channels, extent, flags);
}

cudaError_t cudaFreeArray(cudaArray_t array) {
  return run([&] { return array ? cuArrayDestroy(as_array(array)) : CUDA_SUCCESS; });
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* array, const cudaChannelFormatDesc* channels,
                                     cudaExtent extent, unsigned levels, unsigned flags) {
  return run([&] {
    if (!array) return cudaErrorInvalidValue;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    const cudaError_t error = as_descriptor(channels, extent, flags, &descriptor);
    if (error != cudaSuccess) return error;
    return as_error(cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray*>(array), &descriptor, levels));
  });
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  return run([&] { return array ? cuMipmappedArrayDestroy(as_mipmapped(array)) : CUDA_SUCCESS; });
}

cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t* level, cudaMipmappedArray_const_t array,
                                       unsigned number) {
  return run([&] {
    return cuMipmappedArrayGetLevel(reinterpret_cast<CUarray*>(level), as_mipmapped(array), number);
  });
}

cudaError_t cudaArrayGetPlane(cudaArray_t* plane, cudaArray_t array, unsigned number) {
  return run([&] { return cuArrayGetPlane(reinterpret_cast<CUarray*>(plane), as_array(array), number); });
}

cudaError_t cudaArrayGetMemoryRequirements(cudaArrayMemoryRequirements* requirements, cudaArray_t array,
                                           int device) {
  return run([&] {
    return cuArrayGetMemoryRequirements(same<CUDA_ARRAY_MEMORY_REQUIREMENTS>(requirements), as_array(array),
                                        device);
  });
}

cudaError_t cudaMipmappedArrayGetMemoryRequirements(cudaArrayMemoryRequirements* requirements,
                                                    cudaMipmappedArray_t array, int device) {
  return run([&] {
    return cuMipmappedArrayGetMemoryRequirements(same<CUDA_ARRAY_MEMORY_REQUIREMENTS>(requirements),
                                                 as_mipmapped(array), device);
  });
}

cudaError_t cudaArrayGetSparseProperties(cudaArraySparseProperties* properties, cudaArray_t array) {
  return run([&] {
    return cuArrayGetSparseProperties(same<CUDA_ARRAY_SPARSE_PROPERTIES>(properties), as_array(array));
  });
}

cudaError_t cudaMipmappedArrayGetSparseProperties(cudaArraySparseProperties* properties,
                                                  cudaMipmappedArray_t array) {
  return run([&] {
    return cuMipmappedArrayGetSparseProperties(same<CUDA_ARRAY_SPARSE_PROPERTIES>(properties),
                                               as_mipmapped(array));
  });
}

cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t* width, const cudaChannelFormatDesc* channels,
                                                 int device) {
  return run_without_context([&] {
    if (!width || !channels) return cudaErrorInvalidValue;
    CUarray_format format;
    unsigned count;
    const cudaError_t error = as_format(*channels, &format, &count);
    return error == cudaSuccess ? as_error(cuDeviceGetTexture1DLinearMaxWidth(width, format, count, device))
                                : error;
  });
}
}
