#include "gpu_state/memory/driver.h"

#include "base/format.h"

namespace cropdl::memory {

std::string Driver::name_of(CUresult result) const {
  const char* name = nullptr;
  if (cuGetErrorName && cuGetErrorName(result, &name) == CUDA_SUCCESS && name) return name;
  return formatted("error {} of the CUDA driver", static_cast<int>(result));
}

}  // namespace cropdl::memory
