// The stages of saving (docs/saving.md): a PageSource reads a region's bytes, cut_region cuts them into
// chunks, a ChunkSink takes those. Chunks are cut at fixed addresses: each depends only on the memory of its
// block. LH (LH FS base) and tools; one thread at a time per object. Only a lack of memory is thrown, which
// the caller at the top of a checkpoint turns into an error (base/caught.h).
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::restart {

inline constexpr uint64_t kImagePage = 4096;        // granularity of storing and dropping
inline constexpr uint64_t kImageChunk = 256 << 10;  // hashed, then written, while in the L2 cache

struct Extent {
  uint64_t begin = 0, end = 0;  // page-aligned addresses
  bool operator==(const Extent&) const = default;
};
inline uint64_t bytes_of(std::span<const Extent> extents) {
  uint64_t sum = 0;
  for (const Extent& one : extents) sum += one.end - one.begin;
  return sum;
}
inline uint64_t bytes_of(std::span<const iovec> pieces) {
  uint64_t sum = 0;
  for (const iovec& one : pieces) sum += one.iov_len;
  return sum;
}

// Copies the pieces to `to`, one after the other.
inline void gather(std::span<const iovec> pieces, char* to) {
  for (const iovec& one : pieces) {
    std::memcpy(to, one.iov_base, one.iov_len);
    to += one.iov_len;
  }
}

// The kind of memory at a region's addresses. A reader refuses unknown kinds.
enum class RegionKind : uint32_t {
  kHostMemory = 0,
  kDeviceMemory = 1,  // device or managed memory: copied by the driver
  // Placeholder addresses for a device's variables: nothing is mapped there (gpu_state/memory/contents.h).
  kDeviceVariables = 2,
};

struct Region {
  uint64_t begin = 0, end = 0;  // page-aligned addresses
  uint32_t prot = 0;            // PROT_* flags to save and restore
  std::string name;             // for people and the restorer; at most kImageNameLimit bytes
  // Ascending, disjoint. Writer: extents to read. Reader: extents stored in the image.
  std::vector<Extent> present;
  // Reader: extents whose contents are in a file (restart/page_sources.h). All other pages are zero.
  std::vector<Extent> referenced = {};
  RegionKind kind = RegionKind::kHostMemory;
  uint64_t in_file = 0;  // Reader: bytes of the image that the stored pages take
};
inline constexpr size_t kImageNameLimit = 65536;

struct ImageTotals {
  uint64_t bytes = 0;          // size of the file
  uint64_t memory = 0;         // bytes of memory in the file
  uint64_t device_memory = 0;  // part of `memory` on devices (RegionKind)
  // Of the trailer, which has the checksums of all but the data; those are in the index.
  uint64_t checksum = 0;
  double sync_seconds = 0;  // how long finish() waited for the disk
};

// Source of one region's bytes: the stopped program's memory, a forked child's, a device's. Memory may change
// meanwhile (network cards, asynchronous input and the kernel write to it), so read() returns a copy.
class PageSource {
 public:
  virtual ~PageSource() = default;
  // `runs`: whole pages within one chunk. (*bytes)[i] has runs[i], valid until the next call. Nothing
  // modifies it: the bytes compared, hashed and written are the same.
  virtual Status read(std::span<const Extent> runs, std::vector<iovec>* bytes) = 0;
};

// Destination of one region's bytes at loading, if not the region's own addresses.
class PageTarget {
 public:
  virtual ~PageTarget() = default;
  // Buffers, (*bytes)[i] for runs[i]: whole pages within one chunk, ascending over all calls.
  virtual Status room(std::span<const Extent> runs, std::vector<iovec>* bytes) = 0;
  // The bytes of `runs` are in the buffers, and checked.
  virtual Status put(std::span<const Extent>) { return {}; }
  // All stored pages have been put.
  virtual Status finish() { return {}; }
};

// Has the bytes of one chunk at a time, and by itself does nothing with them.
class ChunkBuffer : public PageTarget {
 public:
  Status room(std::span<const Extent> runs, std::vector<iovec>* bytes) override;

 protected:
  std::vector<char> chunk_;
};

// The contents of one block of kImageChunk addresses. Pages in neither list are zero.
struct Chunk {
  std::vector<Extent> stored;      // ascending, disjoint
  std::vector<iovec> bytes;        // contents of `stored`, in order
  std::vector<Extent> referenced;  // pages equal to the region's file
  std::vector<iovec> original;     // contents of `referenced`, in order
  uint64_t looked_at = 0;          // bytes examined, including zero pages
};

// Destination of chunks: a file (restart/image.h), or later a store that keeps each content once.
class ChunkSink {
 public:
  virtual ~ChunkSink() = default;
  // The following chunks belong to this region. Regions come in any order and do not overlap.
  virtual Status begin_region(const Region& region) = 0;
  // In ascending order within the region. The bytes are valid only during the call.
  virtual Status put(const Chunk& chunk) = 0;
  // Makes all chunks and `metadata` durable. Call once.
  virtual Result<ImageTotals> finish(const std::string& metadata) = 0;
};

// Reads the region's present pages, drops zero pages, passes on the rest chunk by chunk. Pages equal to
// `original`'s (may be null) become references. Do not use the sink after an error.
Status cut_region(const Region& region, PageSource& source, PageSource* original, ChunkSink& sink);

// Calls visit(runs) for each block of `chunk_bytes` addresses, with the extents' parts in it, until an error.
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
