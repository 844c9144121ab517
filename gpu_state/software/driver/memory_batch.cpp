// cuMemcpyBatchAsync: several copies in one call, in stream order as a whole. The variant for boxes is not
// built. Source: CUDA Driver API 13.0, "Memory Management".
#include <cuda.h>

#include <memory>
#include <utility>
#include <vector>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/copies.h"
#include "gpu_state/software/device/streams.h"
#include "gpu_state/software/driver/per_thread.h"

using namespace cropdl;

namespace {

CUresult check_attributes(const CUmemcpyAttributes& attributes) {
  switch (attributes.srcAccessOrder) {
    case CU_MEMCPY_SRC_ACCESS_ORDER_STREAM:
    case CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL:
    case CU_MEMCPY_SRC_ACCESS_ORDER_ANY:
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return attributes.flags & ~unsigned{CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE} ? CUDA_ERROR_INVALID_VALUE
                                                                                  : CUDA_SUCCESS;
}

// `failed`: the index of the failed copy, or the number of copies if no single one failed.
CUresult copy_all(const CUdeviceptr* to, const CUdeviceptr* from, const size_t* sizes, size_t count,
                  const CUmemcpyAttributes* attributes, const size_t* first, size_t attribute_count,
                  size_t* failed, CUstream stream) {
  CUcontext context;
  size_t nobody = 0;
  if (!failed) failed = &nobody;
  *failed = ~size_t{0};
  if (CUresult error = device::enter(&context)) return error;
  if (!to || !from || !sizes || count == 0 || !attributes || !first || attribute_count == 0 ||
      attribute_count > count || first[0] != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!stream || stream == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;  // "must not be legacy"
  for (size_t i = 0; i < attribute_count; ++i) {
    if (i && (first[i] <= first[i - 1] || first[i] >= count)) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = check_attributes(attributes[i])) return error;
  }
  std::shared_ptr<CUstream_st> known;
  if (CUresult error = device::resolve(stream, &known)) return error;
  std::vector<device::CopyWork> works(count);
  std::vector<device::CopyFacts> facts(count);
  for (size_t i = 0; i < count; ++i) {
    *failed = i;
    works[i].copy = device::row_copy(CU_MEMORYTYPE_UNIFIED, to[i], CU_MEMORYTYPE_UNIFIED, from[i], sizes[i]);
    if (CUresult error = device::examine(works[i], known->context, &facts[i])) return error;
  }
  bool waits = false;
  const bool captured = device::is_captured(stream);
  for (size_t i = 0, which = 0; i < count; ++i) {
    *failed = i;
    if (which + 1 < attribute_count && first[which + 1] == i) ++which;
    // With stream order, the source is read when the copy runs, even pageable memory.
    if (attributes[which].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL && !captured) {
      if (facts[i].source.is_host()) {
        works[i].staged = std::make_shared<std::vector<std::byte>>();
        if (!device::stage(works[i].copy, works[i].staged.get())) return CUDA_ERROR_INVALID_VALUE;
      } else {
        waits = true;
      }
    }
    if (CUresult error = device::submit(stream, std::move(works[i]))) return error;
  }
  *failed = ~size_t{0};
  return waits ? device::wait_for(stream) : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CROPDL_CALL_WITH_STREAM(cuMemcpyBatchAsync_v2,
                        (CUdeviceptr * to, CUdeviceptr* from, size_t* sizes, size_t count,
                         CUmemcpyAttributes* attributes, size_t* first, size_t attribute_count,
                         CUstream stream),
                        copy_all(to, from, sizes, count, attributes, first, attribute_count, nullptr, stream))
CROPDL_CALL_WITH_STREAM(cuMemcpyBatchAsync,
                        (CUdeviceptr * to, CUdeviceptr* from, size_t* sizes, size_t count,
                         CUmemcpyAttributes* attributes, size_t* first, size_t attribute_count,
                         size_t* failed, CUstream stream),
                        copy_all(to, from, sizes, count, attributes, first, attribute_count, failed, stream))

}  // extern "C"
