// What a call gets that asks for something the software GPU does not have: its name is said once.
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
