// The table of all mapping flags of the kernel (VmFlags of /proc/self/smaps), how each is handled, and the
// NUMA policies of mappings (man 2 mbind; the thread's own policy is among its attributes). LH.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "restart/memory/mappings.h"

namespace cropdl::host_memory {

// "", or why a mapping with these flags cannot be saved: the first flag that is unknown or refused.
std::string flags_refusal(const Mapping& mapping);

// Whether the program has allocated protection keys (man 7 pkeys). It must be stopped: the check takes all
// remaining keys and frees them.
bool uses_protection_keys(const std::vector<Mapping>& mappings);

// The flags that mapping the memory again does not restore by itself: "gd nr dd ".
std::string flags_to_keep(const Mapping& mapping);

// Flags of mmap(2) for `kept`, with the type: MAP_PRIVATE or MAP_DROPPABLE.
int flags_for_mmap(const std::string& kept);

// Calls madvise(2) for the advice in `kept`.
Status advise_mapping(uint64_t begin, uint64_t end, const std::string& kept);

// man 2 set_mempolicy; mode 0 (MPOL_DEFAULT): none.
struct MemoryPolicy {
  int mode = 0;                 // with its flags
  std::vector<uint64_t> nodes;  // bits
  bool operator==(const MemoryPolicy&) const = default;
  static constexpr const char* kMembers[] = {"mode", "nodes"};  // base/json.h
};

// Without NUMA, or where a sandbox forbids reading a policy (and so setting one), there is none.
MemoryPolicy policy_of(uint64_t address);
Status set_policy(uint64_t begin, uint64_t end, const MemoryPolicy& policy);

}  // namespace cropdl::host_memory
