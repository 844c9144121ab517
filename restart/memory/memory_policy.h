// NUMA policies of mappings: man 2 mbind (the thread's own policy is among its attributes). LH. Without NUMA,
// or where a sandbox forbids reading a policy (and so setting one), there is none.
#pragma once

#include "base/result.h"
#include "restart/memory/memory_state.h"

namespace cropdl::host_memory {

MemoryPolicy policy_of(uint64_t address);

Status set_policy(uint64_t begin, uint64_t end, const MemoryPolicy& policy);

}  // namespace cropdl::host_memory
