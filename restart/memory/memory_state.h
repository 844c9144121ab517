// What an image's metadata records of mappings besides addresses, protection and contents. LH.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "restart/files/file_identity.h"
#include "restart/memory/mapping_flags.h"

namespace cropdl::host_memory {

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

}  // namespace cropdl::host_memory
