#include "gpu_state/memory/driver.h"

#include <chrono>
#include <thread>

namespace cropdl::memory {

bool wait_for_memory() {
  if (waits_for_memory == 0) return false;
  --waits_for_memory;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return true;
}

std::string Driver::name_of(CUresult result) const {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) == CUDA_SUCCESS && name) return name;
  return formatted("error {} of the CUDA driver", static_cast<int>(result));
}

Status Driver::checked(CUresult result, const char* what) const {
  return result == CUDA_SUCCESS ? Status() : Error{"CUDA: {} ({})", what, name_of(result)};
}

}  // namespace cropdl::memory
