// The reader of restart/image.h: the data, which it loads or verifies chunk by chunk.
#include <sys/mman.h>

#include <cstring>

#include "base/caught.h"
#include "base/checksum.h"
#include "base/format.h"
#include "restart/image.h"

namespace cropdl::restart {

namespace {

// Page faults are most of the cost of loading, so one call populates a chunk's pages; advice only. (Huge
// pages by MADV_COLLAPSE were tried: 512 MB then took 0.1 s or 1 s, depending on the kernel's free memory.)
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
constexpr uint64_t kWorthPopulating = 64 << 10;

class InPlace final : public PageTarget {
 public:
  Status room(std::span<const Extent> runs, std::vector<iovec>* bytes) override {
    for (const Extent& run : runs) {
      const uint64_t part = run.end - run.begin;
      bytes->push_back({reinterpret_cast<void*>(run.begin), part});
      if (part >= kWorthPopulating) ::madvise(bytes->back().iov_base, part, kPopulateWrite);
    }
    return {};
  }
};

}  // namespace

Status ImageReader::load_region(size_t i) const {
  InPlace memory;
  return load_region(i, memory);
}

Status ImageReader::load_region(size_t i, PageTarget& target) const {
  const Region& region = regions_[i];
  std::vector<iovec> pieces;
  uint64_t offset = placements_[i].offset;
  size_t chunk = 0;
  const auto load = [&](std::span<const Extent> runs) -> Status {
    pieces.clear();
    if (Status room = target.room(runs, &pieces); !room) return room;
    if (Status got = read(pieces, offset, "region " + region.name); !got) return got;
    if (checksum(pieces) != placements_[i].stored[chunk++])
      return damaged(formatted("region {}, memory from {:#x}",
                               region.name.empty() ? "(unnamed)" : region.name, runs.front().begin),
                     offset, offset + bytes_of(pieces));
    offset += bytes_of(runs);
    return target.put(runs);
  };
  const Status loaded =
      within_memory("rank image " + path_, [&] { return each_chunk(region.present, chunk_, load); });
  return loaded ? target.finish() : loaded;
}

Status ImageReader::verify() const {
  for (size_t i = 0; i < regions_.size(); ++i)
    if (Status good = verify_region(i); !good) return good;
  return {};
}

Status ImageReader::verify_region(size_t i) const {
  ChunkBuffer nowhere;
  return load_region(i, nowhere);
}

Status ImageReader::check_referenced(size_t i, PageSource& original, bool load) const {
  const Region& region = regions_[i];
  std::vector<iovec> bytes;
  size_t chunk = 0;
  const auto check = [&](std::span<const Extent> runs) -> Status {
    bytes.clear();
    if (Status read_it = original.read(runs, &bytes); !read_it)
      return Error{
          "{} cannot be read, and the image has its contents by reference: {}; put it back and try again",
          region.name, read_it.error().message};
    if (checksum(bytes) != placements_[i].referenced[chunk++])
      return Error{region.name +
                   " was changed after the checkpoint, and the image has its contents by reference; put it "
                   "back and try again"};
    if (load)
      for (size_t r = 0; r < runs.size(); ++r)
        std::memcpy(reinterpret_cast<void*>(runs[r].begin), bytes[r].iov_base, bytes[r].iov_len);
    return {};
  };
  return within_memory("rank image " + path_, [&] { return each_chunk(region.referenced, chunk_, check); });
}

}  // namespace cropdl::restart
