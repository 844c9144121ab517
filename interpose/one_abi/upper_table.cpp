// Finds the shim's table, in the control page. UH, any thread.
#include "interpose/one_abi/upper.h"

namespace cropdl::one_abi {
__attribute__((visibility("hidden"))) void* const* const volatile* lower_table() {
  return &seam::control()->libraries[seam::CROPDL_LIBRARY].table;
}
}  // namespace cropdl::one_abi
