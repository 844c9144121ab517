#include "restart/cli/memory_use.h"

#include <sys/mman.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "interpose/seam/layout.h"

namespace cropdl::cli {
namespace {

using restart::Region;
using restart::RegionKind;

bool within(const Region& region, uint64_t begin, uint64_t end) {
  return region.begin >= begin && region.end <= end;
}

// The regions of one image.
class Regions {
 public:
  Regions(const std::vector<Region>& regions, const AddressFacts& facts) : facts_(facts) {
    for (const Region& region : regions) {
      if (region.kind != RegionKind::kHostMemory) continue;
      const std::string file = file_of(region);
      if (!file.empty() && (region.prot & PROT_EXEC) != 0) code_.insert(file);
      if (file.empty() && region.end <= facts.main_stack_below &&
          within(region, seam::kMapBegin, seam::kMapEnd))
        main_stack_ = std::max(main_stack_, std::optional(region.begin));
    }
  }

  std::pair<Use, std::string> use_of(const Region& region) const {
    if (region.kind != RegionKind::kHostMemory)
      return {Use::kDevice, region.kind == RegionKind::kDeviceVariables ? "variables" : region.name};
    if (const std::string file = file_of(region); !file.empty()) {
      if (file == facts_.program) return {Use::kProgram, file};
      return {code_.count(file) != 0 ? Use::kLibrary : Use::kFile, file};
    }
    if (region.name == "[heap]" || within(region, seam::kBrkBegin, seam::kBrkEnd)) return {Use::kHeap, ""};
    if (within(region, seam::kWindowBegin, seam::kHeapEnd)) return {Use::kCropdl, ""};
    const auto is_on_it = [&](uint64_t sp) { return region.begin <= sp && sp < region.end; };
    if (region.begin == main_stack_ || region.name == "[stack]" ||
        std::ranges::any_of(facts_.stack_pointers, is_on_it))
      return {Use::kStacks, ""};
    return {Use::kAnonymous, region.name};
  }

 private:
  // "": none. Of host memory.
  std::string file_of(const Region& region) const {
    const auto file = facts_.files.find(region.begin);
    return file == facts_.files.end() ? "" : file->second;
  }

  const AddressFacts& facts_;
  std::set<std::string> code_;          // files with an executable mapping
  std::optional<uint64_t> main_stack_;  // its begin
};

}  // namespace

const char* use_name(Use use) {
  constexpr const char* kNames[] = {"heap",    "stacks", "anonymous", "program",
                                    "library", "file",   "device",    "CropDL"};
  return kNames[static_cast<size_t>(use)];
}

void add_memory(std::vector<MemoryUse>& uses, const std::vector<Region>& regions, const AddressFacts& facts) {
  std::map<std::pair<Use, std::string>, size_t> places;
  for (size_t i = 0; i < uses.size(); ++i) places[{uses[i].use, uses[i].name}] = i;
  const Regions all(regions, facts);
  for (const Region& region : regions) {
    const auto key = all.use_of(region);
    const auto [place, fresh] = places.try_emplace(key, uses.size());
    if (fresh) uses.push_back({key.first, key.second});
    MemoryUse& use = uses[place->second];
    ++use.regions;
    use.address_space += region.end - region.begin;
    use.stored += bytes_of(region.present);
    use.by_reference += facts.left_in_files.count(region.begin) != 0 ? region.end - region.begin
                                                                     : bytes_of(region.referenced);
  }
}

void sort_memory(std::vector<MemoryUse>& uses) {
  std::sort(uses.begin(), uses.end(), [](const MemoryUse& a, const MemoryUse& b) {
    return std::tie(a.use, b.stored, b.address_space, a.name) <
           std::tie(b.use, a.stored, a.address_space, b.name);
  });
}

MemoryUse sum_of(const std::vector<MemoryUse>& uses) {
  MemoryUse sum;
  for (const MemoryUse& use : uses) {
    sum.regions += use.regions;
    sum.address_space += use.address_space;
    sum.stored += use.stored;
    sum.by_reference += use.by_reference;
  }
  return sum;
}

}  // namespace cropdl::cli
