#include "gpu_state/software/device/virtual_memory.h"

namespace cropdl::device {

bool virtual_contains(uint64_t) { return false; }
bool virtual_allows(uint64_t, uint64_t, bool) { return false; }

}  // namespace cropdl::device
