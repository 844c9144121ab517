#include "restart/memory/program_mappings.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "interpose/seam/extents.h"

namespace cropdl::host_memory {
namespace {

// Adds the program's part of a mapping: the kernel merges adjacent ones, also with the LH's.
void add_part(std::vector<Mapping>& to, const Mapping& m, uint64_t begin, uint64_t end) {
  Mapping part = m;
  part.begin = std::max(m.begin, begin);
  part.end = std::min(m.end, end);
  part.offset += part.begin - m.begin;
  if (part.begin < part.end) to.push_back(std::move(part));
}

void let_run() { usleep(20); }

// The table's entries, unordered. In an image of an older core they may overlap.
std::vector<seam::OutsideExtent> extents_outside() {
  const seam::Extents table(seam::state(), let_run);
  std::vector<seam::OutsideExtent> all;
  for (uint32_t i = 0; i < table.size(); ++i)
    if (table[i].end != 0) all.push_back(table[i]);
  return all;
}

// The ranges in which the program may have memory: ascending, and none touches the next.
std::vector<seam::OutsideExtent> program_ranges() {
  std::vector<seam::OutsideExtent> ranges = {{0, seam::kLowBegin},
                                             {seam::kControlPage + seam::kControlPageSize, seam::kWindowEnd}};
  for (const seam::OutsideExtent& e : extents_outside())
    if (e.end > seam::kLowEnd) ranges.push_back({std::max(e.begin, seam::kLowEnd), e.end});
  std::sort(ranges.begin(), ranges.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  std::vector<seam::OutsideExtent> joined;
  for (const seam::OutsideExtent& r : ranges) {
    if (joined.empty() || joined.back().end < r.begin)
      joined.push_back(r);
    else
      joined.back().end = std::max(joined.back().end, r.end);
  }
  return joined;
}

}  // namespace

std::vector<Mapping> program_part(const std::vector<Mapping>& all) {
  std::vector<Mapping> mine;
  const std::vector<seam::OutsideExtent> ranges = program_ranges();
  auto range = ranges.begin();
  for (const Mapping& m : all) {
    if (m.path == "[vsyscall]" || m.path.starts_with("[vvar") || m.path == "[vdso]") continue;
    while (range != ranges.end() && range->end <= m.begin) ++range;
    for (auto r = range; r != ranges.end() && r->begin < m.end; ++r) add_part(mine, m, r->begin, r->end);
  }
  return mine;
}

void drop_what_is_not_mapped(const std::vector<Mapping>& all) {
  std::vector<seam::OutsideExtent> mapped;
  for (const seam::OutsideExtent& e : extents_outside()) {
    for (const Mapping& m : all) {
      const uint64_t begin = std::max(m.begin, e.begin), end = std::min(m.end, e.end);
      if (begin >= end) continue;
      if (!mapped.empty() && mapped.back().end == begin)
        mapped.back().end = end;
      else
        mapped.push_back({begin, end});
    }
  }
  seam::Extents table(seam::state(), let_run);
  if (table.incomplete() || mapped.size() > seam::kMaxExtents) return;
  table.clear();
  for (const seam::OutsideExtent& e : mapped) table.add(e.begin, e.end);
}

std::string range(uint64_t begin, uint64_t end) { return formatted("{:x}-{:x}", begin, end); }

}  // namespace cropdl::host_memory
