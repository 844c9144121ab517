// What an image's metadata records of mappings besides addresses, protection and contents. LH.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "restart/memory/mapped_files.h"
#include "restart/memory/mapping_flags.h"

namespace cropdl::host_memory {

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
