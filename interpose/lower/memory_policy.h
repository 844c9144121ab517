// On which NUMA nodes memory shall lie: man 2 mbind, set_mempolicy. LH. Without NUMA, and where a sandbox
// forbids to ask (and so to set one), there is no policy.
#pragma once

#include "interpose/lower/memory_state.h"
#include "restart/result.h"

namespace cropdl::lower {

MemoryPolicy policy_of(uint64_t address);
MemoryPolicy thread_policy();  // of the calling thread

Status set_policy(uint64_t begin, uint64_t end, const MemoryPolicy& policy);
Status set_thread_policy(const MemoryPolicy& policy);

}  // namespace cropdl::lower
