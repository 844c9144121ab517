#include "gpu_state/software/device/values.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/memory.h"
#include "gpu_state/software/device/streams.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

bool is_reached(uint64_t found, const ValueWork::One& one) {
  uint64_t all = one.is_64 ? ~uint64_t{0} : 0xffffffffu;
  switch (one.flags) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return found == one.value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (found & one.value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return (~(found | one.value) & all) != 0;
    default:  // cyclic
      return one.is_64 ? static_cast<int64_t>(found - one.value) >= 0
                       : static_cast<int32_t>(static_cast<uint32_t>(found - one.value)) >= 0;
  }
}

uint64_t load(const ValueWork::One& one) {
  if (one.is_64) return std::atomic_ref(*reinterpret_cast<uint64_t*>(one.address)).load();
  return std::atomic_ref(*reinterpret_cast<uint32_t*>(one.address)).load();
}

void store(const ValueWork::One& one) {
  if (one.is_64)
    std::atomic_ref(*reinterpret_cast<uint64_t*>(one.address)).store(one.value);
  else
    std::atomic_ref(*reinterpret_cast<uint32_t*>(one.address)).store(static_cast<uint32_t>(one.value));
}

bool is_memory(const ValueWork::One& one, CUcontext context) {
  return context->device->memory().view().range(one.address, one.is_64 ? 8 : 4, !one.is_wait);
}

}  // namespace

CUresult values_from(CUcontext context, const CUstreamBatchMemOpParams* parameters, unsigned count,
                     ValueWork* work) {
  constexpr unsigned kFewerThan = 256;  // cuStreamBatchMemOp
  if (count >= kFewerThan || (count && !parameters)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    const CUstreamBatchMemOpParams& from = parameters[i];
    ValueWork::One one;
    switch (from.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        one.is_wait = true;
        one.is_64 = from.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
        one.address = from.waitValue.address;
        one.value = one.is_64 ? from.waitValue.value64 : from.waitValue.value;
        one.flags = from.waitValue.flags;
        if (one.flags & CU_STREAM_WAIT_VALUE_FLUSH) {
          settings::say_not_built("CU_STREAM_WAIT_VALUE_FLUSH");
          return CUDA_ERROR_NOT_SUPPORTED;
        }
        if (one.flags > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        one.is_64 = from.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
        one.address = from.writeValue.address;
        one.value = one.is_64 ? from.writeValue.value64 : from.writeValue.value;
        if (from.writeValue.flags != CU_STREAM_WRITE_VALUE_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
        break;
      case CU_STREAM_MEM_OP_BARRIER:
        continue;  // a stream's operations are seen by everyone in order
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        settings::say_not_built("CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES");
        return CUDA_ERROR_NOT_SUPPORTED;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (one.address % (one.is_64 ? 8 : 4) || !is_memory(one, context)) return CUDA_ERROR_INVALID_VALUE;
    work->all.push_back(one);
  }
  return CUDA_SUCCESS;
}

CUresult perform(const ValueWork& work, CUcontext context) {
  for (const ValueWork::One& one : work.all) {
    if (!is_memory(one, context)) return CUDA_ERROR_ILLEGAL_ADDRESS;  // freed after the call
    if (!one.is_wait) {
      store(one);
      continue;
    }
    std::chrono::microseconds pause(5);
    constexpr std::chrono::microseconds kLongest(500);
    while (!is_reached(load(one), one)) {
      if (context->error.load() != CUDA_SUCCESS || is_ending()) return CUDA_SUCCESS;
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, kLongest);
      if (!is_memory(one, context)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace cropdl::device
