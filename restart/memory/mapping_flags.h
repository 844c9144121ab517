// Every flag that the kernel tells of a mapping (VmFlags of /proc/self/smaps), and what becomes of it: one
// table. LH.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "restart/memory/mappings.h"

namespace cropdl::host_memory {

// "", or why a mapping with these flags cannot be saved: the first flag that is not known, or that is named
// as such.
std::string flags_refusal(const Mapping& mapping);

// Whether the program has allocated protection keys (man 7 pkeys). It must be stopped: they are found out by
// taking those that are left.
bool uses_protection_keys(const std::vector<Mapping>& mappings);

// Those of the mapping's flags that mapping it again does not bring back by itself: "gd nr dd ".
std::string flags_to_keep(const Mapping& mapping);

// Flags for mmap(2) that `kept` asks for, MAP_PRIVATE or its like among them.
int flags_for_mmap(const std::string& kept);

// Advises the kernel as `kept` says.
Status advise_mapping(uint64_t begin, uint64_t end, const std::string& kept);

}  // namespace cropdl::host_memory
