// The reader of restart/image.h: the data, which it loads or verifies chunk by chunk.
#include <sys/mman.h>

#include <cstring>

#include "base/checksum.h"
#include "base/format.h"
#include "base/within_memory.h"
#include "restart/image.h"
#include "restart/image_layout.h"

namespace cropdl::restart {

namespace {

// Page faults are most of the cost of loading, so one call populates a chunk's pages; advice only. (Huge
// pages by MADV_COLLAPSE were tried: 512 MB then took 0.1 s or 1 s, depending on the kernel's free memory.)
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
constexpr uint64_t kWorthPopulating = 64 << 10;

Status nothing(std::span<const Extent>) { return {}; }

}  // namespace

// Reads and checks one chunk whose first page has the address `memory`.
Status ImageReader::read_chunk(size_t region, size_t chunk, uint64_t memory, uint64_t offset,
                               const std::vector<iovec>& pieces) const {
  uint64_t bytes = 0;
  for (const iovec& piece : pieces) bytes += piece.iov_len;
  std::vector<iovec> consumed = pieces;
  const int error = read_all(file_.fd(), consumed, offset);
  const std::string place =
      formatted("region {} ({})", regions_[region].name, offsets(offset, offset + bytes));
  if (error == kEndOfFile) return refusal("truncated: it ends within " + place);
  if (error != 0) return refusal(formatted("{} cannot be read: {}", place, errno_text(error)));
  if (checksum(pieces) != placements_[region].stored[chunk])
    return damaged(formatted("region {}, memory from {:#x}",
                             regions_[region].name.empty() ? "(unnamed)" : regions_[region].name, memory),
                   offset, offset + bytes);
  return {};
}

// Calls room(runs, &pieces) and put(runs) for each chunk of the region, as PageTarget's functions.
template <class Room, class Put>
Status ImageReader::read_region(size_t i, Room room, Put put) const {
  std::vector<iovec> pieces;
  uint64_t offset = placements_[i].offset;
  size_t chunk = 0;
  const auto read_it = [&](std::span<const Extent> runs) -> Status {
    pieces.clear();
    if (Status made = room(runs, &pieces); !made) return made;
    if (Status good = read_chunk(i, chunk++, runs.front().begin, offset, pieces); !good) return good;
    for (const Extent& run : runs) offset += run.end - run.begin;
    return put(runs);
  };
  return within_memory("rank image " + path_,
                       [&] { return each_chunk(regions_[i].present, chunk_, read_it); });
}

Status ImageReader::load_region(size_t i) const {
  const auto own_addresses = [](std::span<const Extent> runs, std::vector<iovec>* pieces) -> Status {
    for (const Extent& run : runs) {
      pieces->push_back({reinterpret_cast<void*>(run.begin), run.end - run.begin});
      const iovec& last = pieces->back();
      if (last.iov_len >= kWorthPopulating) ::madvise(last.iov_base, last.iov_len, kPopulateWrite);
    }
    return {};
  };
  return read_region(i, own_addresses, nothing);
}

Status ImageReader::load_region(size_t i, PageTarget& target) const {
  const Status loaded = read_region(
      i, [&](auto runs, auto* pieces) { return target.room(runs, pieces); },
      [&](auto runs) { return target.put(runs); });
  return loaded ? target.finish() : loaded;
}

Status ImageReader::verify() const {
  for (size_t i = 0; i < regions_.size(); ++i)
    if (Status good = verify_region(i); !good) return good;
  return {};
}

Status ImageReader::verify_region(size_t i) const {
  std::vector<char> buffer;  // at most kChunkLimit bytes
  const auto in_buffer = [&](std::span<const Extent> runs, std::vector<iovec>* pieces) -> Status {
    uint64_t bytes = 0;
    for (const Extent& run : runs) bytes += run.end - run.begin;
    if (buffer.size() < bytes) buffer.resize(bytes);
    pieces->push_back({buffer.data(), bytes});
    return {};
  };
  return read_region(i, in_buffer, nothing);
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
