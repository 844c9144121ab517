#include "restart/memory/memory_state.h"

#include <algorithm>

#include "base/json.h"
#include "base/page.h"

namespace cropdl::host_memory {

using nlohmann::json;

namespace {

json file_json(const MappedFile& f) {
  json j{{"path", json_bytes(f.path)}, {"shared", f.shared}, {"offset", f.offset}, {"identity", f.identity}};
  if (f.left_in_file) j["left_in_file"] = true;
  return j;
}

MappedFile file_from(const json& j) {
  MappedFile f;
  f.path = bytes_from_json(j.at("path"));
  j.at("shared").get_to(f.shared);
  f.left_in_file = j.value("left_in_file", false);
  f.offset = integer_from_json<uint64_t>(j.at("offset"));
  j.at("identity").get_to(f.identity);
  return f;
}

// Numbers of pages, none and copies by turns, from the region's begin: there may be millions of runs.
json copies_json(const RegionState& r) {
  json turns = json::array();
  uint64_t at = r.begin;
  for (const PageRun& run : r.copies) {
    turns.push_back((run.begin - at) / kPage);
    turns.push_back((run.end - run.begin) / kPage);
    at = run.end;
  }
  return turns;
}

std::vector<PageRun> copies_from(const json& turns, uint64_t begin) {
  std::vector<PageRun> runs;
  uint64_t at = begin;
  for (size_t i = 0; i + 1 < turns.size(); i += 2) {
    const uint64_t from = at + integer_from_json<uint64_t>(turns[i]) * kPage;
    at = from + integer_from_json<uint64_t>(turns[i + 1]) * kPage;
    runs.push_back({from, at});
  }
  return runs;
}

}  // namespace

const RegionState* MemoryState::of(uint64_t begin, uint64_t end) const {
  const auto at = std::lower_bound(regions.begin(), regions.end(), begin,
                                   [](const RegionState& r, uint64_t address) { return r.begin < address; });
  return at != regions.end() && at->begin == begin && at->end == end ? &*at : nullptr;
}

void to_json(json& j, const MemoryState& state) {
  json regions = json::array();
  for (const RegionState& r : state.regions) {
    json one{{"begin", r.begin}, {"end", r.end}, {"flags", r.flags}};
    if (r.file) one["file"] = file_json(*r.file);
    for (const PageRun& g : r.guards) one["guards"].push_back({g.begin, g.end});
    if (!r.copies.empty()) one["copies"] = copies_json(r);
    if (r.policy.mode != 0) one["policy"] = r.policy;
    regions.push_back(std::move(one));
  }
  j = {{"regions", std::move(regions)}, {"lock_future", state.lock_future}};
}

void from_json(const json& j, MemoryState& state) {
  state.lock_future = integer_from_json<int>(j.at("lock_future"));
  for (const json& one : j.at("regions")) {
    RegionState r;
    r.begin = integer_from_json<uint64_t>(one.at("begin"));
    r.end = integer_from_json<uint64_t>(one.at("end"));
    one.at("flags").get_to(r.flags);
    if (one.contains("file")) r.file = file_from(one.at("file"));
    if (one.contains("guards"))
      for (const json& g : one.at("guards"))
        r.guards.push_back({g.at(0).get<uint64_t>(), g.at(1).get<uint64_t>()});
    if (one.contains("copies")) r.copies = copies_from(one.at("copies"), r.begin);
    if (one.contains("policy")) one.at("policy").get_to(r.policy);
    state.regions.push_back(std::move(r));
  }
}

}  // namespace cropdl::host_memory
