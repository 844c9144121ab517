#include "gpu_state/software/device/arrays.h"

#include <algorithm>

#include "gpu_state/software/device/live.h"
#include "gpu_state/software/device/memory.h"
#include "gpu_state/software/device/not_built.h"

struct CUarray_st {
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  cropdl::device::ArrayRows rows;
  cropdl::device::Memory* memory = nullptr;
  CUcontext context = nullptr;
};

namespace cropdl::device {

namespace {

Live<CUarray_st>& arrays() {
  static auto* kArrays = new Live<CUarray_st>;
  return *kArrays;
}

unsigned bytes_of(CUarray_format format) {  // 0: not built
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

}  // namespace

CUresult create_array(Memory& memory, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, CUcontext context,
                      CUarray* array) {
  constexpr unsigned kBuilt = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_TEXTURE_GATHER;
  if (descriptor.Flags & ~kBuilt) return not_built("an array with flags beyond layers, surfaces and gather");
  const unsigned channels = descriptor.NumChannels;
  if (descriptor.Width == 0 || (channels != 1 && channels != 2 && channels != 4))
    return CUDA_ERROR_INVALID_VALUE;
  const unsigned bytes = bytes_of(descriptor.Format);
  if (!bytes) return not_built("an array of that format");
  const bool layered = descriptor.Flags & CUDA_ARRAY3D_LAYERED;
  const bool flat = descriptor.Depth == 0 || layered;
  if (layered && descriptor.Depth == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!flat && descriptor.Height == 0) return CUDA_ERROR_INVALID_VALUE;
  const size_t most_width = flat ? 131072 : 16384, most_height = flat ? 65536 : 16384,
               most_depth = layered ? 2048 : 16384;
  if (descriptor.Width > most_width || descriptor.Height > most_height || descriptor.Depth > most_depth)
    return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<CUarray_st>();
  made->descriptor = descriptor;
  made->memory = &memory;
  made->context = context;
  ArrayRows& rows = made->rows;
  rows.pitch = descriptor.Width * channels * bytes;
  rows.height = std::max<size_t>(1, descriptor.Height);
  rows.depth = std::max<size_t>(1, descriptor.Depth);
  CUdeviceptr base = 0;
  if (CUresult error =
          memory.allocate(rows.pitch * rows.height * rows.depth, &base, context, MemoryKind::kModule))
    return error;
  rows.base = base;
  *array = arrays().add(made);
  return CUDA_SUCCESS;
}

CUresult destroy_array(CUarray handle) {
  auto array = arrays().take(handle);
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  return array->memory->release(array->rows.base, MemoryKind::kModule);
}

CUresult describe_array(CUarray handle, CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUcontext* context) {
  auto array = arrays().find(handle);
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  *descriptor = array->descriptor;
  if (context) *context = array->context;
  return CUDA_SUCCESS;
}

void destroy_arrays(CUcontext context) {
  for (const auto& array : arrays().all())
    if (array->context == context) (void)destroy_array(array.get());
}

CUresult array_rows(CUarray handle, ArrayRows* rows) {
  auto array = arrays().find(handle);
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  *rows = array->rows;
  return CUDA_SUCCESS;
}

}  // namespace cropdl::device
