// Saving as stages (docs/saving.md): where a region's bytes are read (PageSource), how they are cut into
// chunks (cut_region), and where those go (ChunkSink). Chunks are cut at addresses: what one holds depends on
// the memory of its block of addresses alone. LH (LH FS base) and tools; an object is used by one thread at a
// time. Nothing here throws.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::restart {

inline constexpr uint64_t kImagePage = 4096;        // granularity of what is stored or dropped
inline constexpr uint64_t kImageChunk = 256 << 10;  // hashed, then written, while it lies in the L2 cache

struct Extent {
  uint64_t begin = 0, end = 0;  // page-aligned addresses
  bool operator==(const Extent&) const = default;
};

// What a region's addresses are. A reader refuses a kind that it does not know.
enum class RegionKind : uint32_t {
  kHostMemory = 0,
  kDeviceMemory = 1,     // the device's, or managed: read and written by copies of its driver's
  kDeviceVariables = 2,  // stand for variables of a device: nothing lies there (gpu_state/memory/contents.h)
};

struct Region {
  uint64_t begin = 0, end = 0;  // page-aligned addresses
  uint32_t prot = 0;            // PROT_* it had and shall have
  std::string name;             // for people and for the restorer, at most kImageNameLimit bytes
  // Ascending, disjoint. Writer: where to look. Reader: what is stored.
  std::vector<Extent> present;
  std::vector<Extent> referenced = {};  // Reader: what a file has (restart/page_sources.h). The rest is zero
  RegionKind kind = RegionKind::kHostMemory;
};
inline constexpr size_t kImageNameLimit = 65536;

struct ImageTotals {
  uint64_t bytes = 0;          // size of the file
  uint64_t memory = 0;         // bytes of memory in it
  uint64_t device_memory = 0;  // ... of which are devices' (RegionKind)
  uint64_t checksum =
      0;  // of the trailer, which holds those of everything else but the data, whose are in the index
};

// Where the bytes of one region come from. Which one is used is decided region by region: the memory itself
// while the program is stopped, a forked child's, a device's. Memory may change meanwhile: a network
// card, asynchronous input and the kernel write to it. So what is handed out is always a copy.
class PageSource {
 public:
  virtual ~PageSource() = default;
  // `runs`, whole pages, lie within one chunk; (*bytes)[i] is of runs[i], valid until the next call. Nobody
  // writes to them: what is looked at, hashed and written are the same bytes.
  virtual Status read(std::span<const Extent> runs, std::vector<iovec>* bytes) = 0;
};

// Where the bytes of one region go when an image is loaded, if not to its own addresses.
class PageTarget {
 public:
  virtual ~PageTarget() = default;
  // Room for `runs`, whole pages within one chunk, ascending over all calls: (*bytes)[i] is where runs[i] is
  // to be read to.
  virtual Status room(std::span<const Extent> runs, std::vector<iovec>* bytes) = 0;
  // They are there, and checked.
  virtual Status put(std::span<const Extent> runs) = 0;
  // All that is stored was put.
  virtual Status finish() = 0;
};

// What there is of one block of kImageChunk addresses; pages in neither list are zero.
struct Chunk {
  std::vector<Extent> stored;      // ascending, disjoint, as are the bytes
  std::vector<iovec> bytes;        // of `stored`, one after another
  std::vector<Extent> referenced;  // pages that are as the region's file has them
  std::vector<iovec> original;     // their bytes
  uint64_t looked_at = 0;          // bytes, zero pages included
};

// Where chunks go: a file (restart/image.h), or one day a store that has each content once.
class ChunkSink {
 public:
  virtual ~ChunkSink() = default;
  // The chunks that follow are of this region. Regions come in any order and do not overlap.
  virtual Status begin_region(const Region& region) = 0;
  // In ascending order within the region. The bytes are only valid during the call.
  virtual Status put(const Chunk& chunk) = 0;
  // All of it, and `metadata`, is durable afterwards. Not to be called twice.
  virtual Result<ImageTotals> finish(const std::string& metadata) = 0;
};

// Reads what is present of the region, drops zero pages, and hands the rest on chunk by chunk. Pages that are
// the same in `original` (may be null) go as references to it. After an error the sink is to be given up.
Status cut_region(const Region& region, PageSource& source, PageSource* original, ChunkSink& sink);

// Calls visit(runs) for each block of `chunk_bytes` addresses that the extents touch, with their parts of it.
// Stops at the first Status that is not good.
template <class Visit>
Status each_chunk(const std::vector<Extent>& extents, uint64_t chunk_bytes, Visit visit) {
  std::vector<Extent> runs;
  uint64_t block = 0;
  for (const Extent& extent : extents) {
    for (uint64_t at = extent.begin; at != extent.end;) {
      if (!runs.empty() && at / chunk_bytes != block) {
        if (Status done = visit(std::span<const Extent>(runs)); !done) return done;
        runs.clear();
      }
      block = at / chunk_bytes;
      const uint64_t part = std::min(extent.end - at, chunk_bytes - at % chunk_bytes);
      runs.push_back({at, at + part});
      at += part;
    }
  }
  return runs.empty() ? Status() : visit(std::span<const Extent>(runs));
}

}  // namespace cropdl::restart
