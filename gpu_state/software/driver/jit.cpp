#include "gpu_state/software/driver/jit.h"

#include <algorithm>
#include <cstring>

#include "base/say.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::driver {

CUresult JitOptions::read(unsigned count, CUjit_option* options, void** values) {
  if (count && (!options || !values)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    void*& value = values[i];  // for numbers, the low half, as cuda.h says of option values
    auto number = static_cast<unsigned>(reinterpret_cast<uintptr_t>(value));
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
        info_.bytes = static_cast<char*>(value);
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        error_.bytes = static_cast<char*>(value);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        info_.size = number;
        info_.used = &value;
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        error_.size = number;
        error_.used = &value;
        break;
      case CU_JIT_WALL_TIME:
        wall_time_ = &value;
        break;
      // Optimisation options and targets have no effect: PTX is executed directly. Nor have those for
      // link-time optimisation, of which there is none.
      case CU_JIT_MAX_REGISTERS:
      case CU_JIT_THREADS_PER_BLOCK:
      case CU_JIT_OPTIMIZATION_LEVEL:
      case CU_JIT_TARGET_FROM_CUCONTEXT:
      case CU_JIT_TARGET:
      case CU_JIT_FALLBACK_STRATEGY:
      case CU_JIT_GENERATE_DEBUG_INFO:
      case CU_JIT_LOG_VERBOSE:
      case CU_JIT_GENERATE_LINE_INFO:
      case CU_JIT_CACHE_MODE:
      case CU_JIT_NEW_SM3X_OPT:
      case CU_JIT_FAST_COMPILE:
      case CU_JIT_POSITION_INDEPENDENT_CODE:
      case CU_JIT_MIN_CTA_PER_SM:
      case CU_JIT_MAX_THREADS_PER_BLOCK:
      case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
      case CU_JIT_SPLIT_COMPILE:
      case CU_JIT_REFERENCED_KERNEL_NAMES:
      case CU_JIT_REFERENCED_KERNEL_COUNT:
      case CU_JIT_REFERENCED_VARIABLE_NAMES:
      case CU_JIT_REFERENCED_VARIABLE_COUNT:
      case CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES:
      case CU_JIT_LTO:
      case CU_JIT_FTZ:
      case CU_JIT_PREC_DIV:
      case CU_JIT_PREC_SQRT:
      case CU_JIT_FMA:
        break;
      case CU_JIT_GLOBAL_SYMBOL_NAMES:
      case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
      case CU_JIT_GLOBAL_SYMBOL_COUNT:
        if (number == 0) break;
        settings::say_not_built("CU_JIT_GLOBAL_SYMBOL_NAMES");
        return CUDA_ERROR_NOT_SUPPORTED;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

void JitOptions::fill(const Buffer& buffer, const std::string& text) {
  size_t used = 0;
  if (buffer.bytes && buffer.size) {
    size_t length = std::min(text.size(), buffer.size - 1);
    std::memcpy(buffer.bytes, text.data(), length);
    buffer.bytes[length] = 0;
    used = text.empty() ? 0 : length + 1;
  }
  if (buffer.used) *buffer.used = reinterpret_cast<void*>(used);
}

void JitOptions::report(const std::string& info, const std::string& error) {
  fill(info_, info);
  fill(error_, error);
  if (!error.empty() && !(error_.bytes && error_.size)) say("software GPU: " + error);
  float milliseconds = 0;
  if (wall_time_) std::memcpy(wall_time_, &milliseconds, sizeof milliseconds);
}

}  // namespace cropdl::driver
