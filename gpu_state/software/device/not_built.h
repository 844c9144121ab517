// The result of calls that need a feature that the software GPU does not have: prints its name once.
#pragma once

#include <cuda.h>

#include <string_view>

#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

inline CUresult not_built(std::string_view name) {
  settings::say_not_built(name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace cropdl::device
