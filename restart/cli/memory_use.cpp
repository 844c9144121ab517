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

// "": none. Of host memory.
std::string file_of(const Region& region, const AddressFacts& facts) {
  const auto file = facts.files.find(region.begin);
  return file == facts.files.end() ? "" : file->second;
}

// `code`: files with an executable mapping; `main_stack`: where it begins.
std::pair<Use, std::string> use_of(const Region& region, const AddressFacts& facts,
                                   const std::set<std::string>& code, std::optional<uint64_t> main_stack) {
  if (region.kind != RegionKind::kHostMemory)
    return {Use::kDevice, region.kind == RegionKind::kDeviceVariables ? "variables" : region.name};
  if (const std::string file = file_of(region, facts); !file.empty()) {
    if (file == facts.program) return {Use::kProgram, file};
    return {code.contains(file) ? Use::kLibrary : Use::kFile, file};
  }
  if (region.name == "[heap]" || within(region, seam::kBrkBegin, seam::kBrkEnd)) return {Use::kHeap, ""};
  if (within(region, seam::kWindowBegin, seam::kHeapEnd)) return {Use::kCropdl, ""};
  const auto is_on_it = [&](uint64_t sp) { return region.begin <= sp && sp < region.end; };
  if (region.begin == main_stack || region.name == "[stack]" ||
      std::ranges::any_of(facts.stack_pointers, is_on_it))
    return {Use::kStacks, ""};
  return {Use::kAnonymous, region.name};
}

}  // namespace

const char* use_name(Use use) {
  constexpr const char* kNames[] = {"heap",    "stacks", "anonymous", "program",
                                    "library", "file",   "device",    "CropDL"};
  return kNames[static_cast<size_t>(use)];
}

void add_memory(std::vector<MemoryUse>& uses, const std::vector<Region>& regions, const AddressFacts& facts) {
  std::set<std::string> code;
  std::optional<uint64_t> main_stack;
  for (const Region& region : regions) {
    if (region.kind != RegionKind::kHostMemory) continue;
    const std::string file = file_of(region, facts);
    if (!file.empty() && (region.prot & PROT_EXEC) != 0) code.insert(file);
    if (file.empty() && region.end <= facts.main_stack_below &&
        within(region, seam::kMapBegin, seam::kMapEnd))
      main_stack = std::max(main_stack, std::optional(region.begin));
  }
  std::map<std::pair<Use, std::string>, size_t> places;
  for (size_t i = 0; i < uses.size(); ++i) places[{uses[i].use, uses[i].name}] = i;
  for (const Region& region : regions) {
    const auto key = use_of(region, facts, code, main_stack);
    const auto [place, fresh] = places.try_emplace(key, uses.size());
    if (fresh) uses.push_back({key.first, key.second});
    MemoryUse& use = uses[place->second];
    ++use.regions;
    use.address_space += region.end - region.begin;
    use.stored += bytes_of(region.present);
    use.in_file += region.in_file;
    use.by_reference +=
        facts.left_in_files.contains(region.begin) ? region.end - region.begin : bytes_of(region.referenced);
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
    sum.in_file += use.in_file;
    sum.by_reference += use.by_reference;
  }
  return sum;
}

}  // namespace cropdl::cli
