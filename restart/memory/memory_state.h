// What an image's metadata records of mappings besides addresses, protection and contents: flags, NUMA
// policy, file. The table of all mapping flags of the kernel (VmFlags of /proc/self/smaps) says how each is
// handled. LH.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "restart/files/file_identity.h"
#include "restart/memory/mappings.h"

namespace cropdl::host_memory {

// man 2 set_mempolicy; mode 0 (MPOL_DEFAULT): none.
struct MemoryPolicy {
  int mode = 0;                 // with its flags
  std::vector<uint64_t> nodes;  // bits
  bool operator==(const MemoryPolicy&) const = default;
  static constexpr const char* kMembers[] = {"mode", "nodes"};  // base/json.h
};

struct MappedFile {
  std::string path;
  bool shared = false;        // not writable: writable shared mappings are refused
  bool executable = false;    // at the cut; not saved, since the region has it
  bool left_in_file = false;  // the image omits the contents: the file must not change
  uint64_t offset = 0;
  files::FileIdentity identity;  // at the cut; inode 0: its name was gone, or another file's
};

struct RegionState {
  uint64_t begin = 0, end = 0;
  std::string flags;  // flags_to_keep()
  std::optional<MappedFile> file;
  std::vector<PageRun> guards;
  std::vector<PageRun> copies;  // of a private mapping of a file: pages that were no longer the file's
  MemoryPolicy policy;
};

struct MemoryState {
  std::vector<RegionState> regions;  // ascending
  int lock_future = 0;               // MCL_FUTURE and MCL_ONFAULT (man 2 mlockall)

  // The state of the image's region [begin, end); null: none is recorded.
  const RegionState* of(uint64_t begin, uint64_t end) const;
};

void to_json(nlohmann::json& j, const MemoryState& state);
void from_json(const nlohmann::json& j, MemoryState& state);  // throws json::exception

// "", or why a mapping with these flags cannot be saved: the first flag that is unknown or refused.
std::string flags_refusal(const Mapping& mapping);

// Whether the program has allocated protection keys (man 7 pkeys). It must be stopped: the check takes all
// remaining keys and frees them.
bool uses_protection_keys(const std::vector<Mapping>& mappings);

// The flags that mapping the memory again does not restore by itself: "gd nr dd ".
std::string flags_to_keep(const Mapping& mapping);
int flags_for_mmap(const std::string& kept);  // with the type: MAP_PRIVATE or MAP_DROPPABLE
Status advise_mapping(uint64_t begin, uint64_t end, const std::string& kept);  // by madvise(2)

// Without NUMA, or where a sandbox forbids reading a policy (and so setting one), there is none.
MemoryPolicy policy_of(uint64_t address);
Status set_policy(uint64_t begin, uint64_t end, const MemoryPolicy& policy);

}  // namespace cropdl::host_memory
