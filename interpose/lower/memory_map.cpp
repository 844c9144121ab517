#include "interpose/lower/memory_map.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>

#include "interpose/seam/state.h"

namespace cropdl::lower {
namespace {

std::string range(uint64_t begin, uint64_t end) {
  char text[64];
  snprintf(text, sizeof text, "%" PRIx64 "-%" PRIx64, begin, end);
  return text;
}

// A kernel's mapping may be the LH's and the program's side by side: VMAs merge. Only the program's part
// counts.
void add_part(std::vector<Mapping>& to, const Mapping& m, uint64_t begin, uint64_t end) {
  Mapping part = m;
  part.begin = std::max(m.begin, begin);
  part.end = std::min(m.end, end);
  if (part.begin < part.end) to.push_back(std::move(part));
}

}  // namespace

std::vector<Mapping> program_mappings() {
  std::vector<Mapping> mine;
  const auto* state = seam::state();
  for (const Mapping& m : read_mappings()) {
    if (m.path == "[vsyscall]" || m.path == "[vvar]" || m.path == "[vdso]") continue;
    add_part(mine, m, 0, seam::kLowBegin);
    add_part(mine, m, seam::kControlPage + seam::kControlPageSize, seam::kWindowEnd);
    const uint32_t extents = std::min<uint32_t>(state->extents, seam::kMaxExtents);
    for (uint32_t i = 0; i < extents; ++i) {
      // Extents may overlap each other; take what no earlier one has taken, and only what is outside.
      uint64_t begin = std::max(state->outside[i].begin, seam::kLowEnd);
      const uint64_t end = state->outside[i].end;
      for (uint32_t j = 0; j < i; ++j)
        if (state->outside[j].begin <= begin && state->outside[j].end > begin) begin = state->outside[j].end;
      add_part(mine, m, begin, end);
    }
  }
  std::sort(mine.begin(), mine.end(), [](const Mapping& a, const Mapping& b) { return a.begin < b.begin; });
  return mine;
}

Result<restart::ImageTotals> write_memory(const std::string& path, const std::string& metadata) {
  struct Part {
    Mapping mapping;
    restart::Region region;
  };
  std::vector<Part> parts;
  uint64_t expected = 0;
  for (const Mapping& m : program_mappings()) {
    Part part{m, {m.begin, m.end, static_cast<uint32_t>(m.prot), m.path, {}}};
    const bool unreadable = (m.prot & PROT_READ) == 0;
    std::vector<PageRun> runs;
    if (m.inode == 0) {
      runs = present_pages(m.begin, m.end);
    } else {  // a file's pages exist whether they are in memory or not, up to its end
      if (unreadable) mprotect(reinterpret_cast<void*>(m.begin), m.end - m.begin, m.prot | PROT_READ);
      runs = readable_pages(m.begin, m.end);
      if (unreadable) mprotect(reinterpret_cast<void*>(m.begin), m.end - m.begin, m.prot);
    }
    for (const PageRun& r : runs)
      part.region.present.push_back({r.begin, r.end}), expected += r.end - r.begin;
    parts.push_back(std::move(part));
  }
  auto writer = restart::ImageWriter::create(path, seam::kSeamVersion, expected);
  if (!writer) return writer.error();
  for (const Part& part : parts) {
    const Mapping& m = part.mapping;
    const bool open_up = (m.prot & PROT_READ) == 0 && !part.region.present.empty();
    if (open_up && mprotect(reinterpret_cast<void*>(m.begin), m.end - m.begin, m.prot | PROT_READ) != 0)
      return Error{"cannot read the program's memory " + range(m.begin, m.end) + ": " + errno_text(errno)};
    const Status added = writer->add_region(part.region);
    if (open_up) mprotect(reinterpret_cast<void*>(m.begin), m.end - m.begin, m.prot);
    if (!added) return added.error();
  }
  return writer->finish(metadata);
}

Status load_memory(const restart::ImageReader& image) {
  const auto& regions = image.regions();
  for (size_t i = 0; i < regions.size(); ++i) {
    const auto& r = regions[i];
    void* p = mmap(reinterpret_cast<void*>(r.begin), r.end - r.begin, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != reinterpret_cast<void*>(r.begin)) {
      const int why = errno;
      for (size_t j = 0; j < i; ++j)
        munmap(reinterpret_cast<void*>(regions[j].begin), regions[j].end - regions[j].begin);
      return Error{"the program's addresses " + range(r.begin, r.end) +
                   " are taken in this process: " + errno_text(why)};
    }
  }
  for (size_t i = 0; i < regions.size(); ++i) {
    if (Status s = image.load_region(i); !s) {
      unmap_memory(image);
      return s;
    }
  }
  for (const auto& r : regions)
    if (r.prot != (PROT_READ | PROT_WRITE) &&
        mprotect(reinterpret_cast<void*>(r.begin), r.end - r.begin, static_cast<int>(r.prot)) != 0)
      return Error{"cannot protect " + range(r.begin, r.end) + ": " + errno_text(errno)};
  return {};
}

void unmap_memory(const restart::ImageReader& image) {
  for (const auto& r : image.regions()) munmap(reinterpret_cast<void*>(r.begin), r.end - r.begin);
}

}  // namespace cropdl::lower
