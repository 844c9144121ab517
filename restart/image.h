// A rank's image: the memory of one upper half and its metadata, in one file. docs/image-format.md describes
// every byte. Every byte is covered by a checksum, so that damage is refused and located, never loaded. Runs
// in the lower half (LH FS base) or in tools; an object is used by one thread at a time. Nothing here throws.
//
// Only pages that are present and not zero are stored; they go from memory to the file and back without a
// copy.
#pragma once

#include <sys/uio.h>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/readable.h"
#include "base/result.h"
#include "interpose/seam/layout.h"

namespace cropdl::restart {

inline constexpr uint32_t kImageFormat = 1;
inline constexpr uint64_t kImagePage = 4096;        // granularity of what is stored or dropped
inline constexpr uint64_t kImageChunk = 256 << 10;  // hashed, then written, while it lies in the L2 cache

struct Extent {
  uint64_t begin = 0, end = 0;  // page-aligned addresses
  bool operator==(const Extent&) const = default;
};

struct Region {
  uint64_t begin = 0, end = 0;  // page-aligned addresses
  uint32_t prot = 0;            // PROT_* it had and shall have
  std::string name;             // for people and for the restorer, at most kImageNameLimit bytes
  std::vector<Extent>
      present;  // ascending, disjoint. Writer: where to look. Reader: what is stored; the rest is zero
  bool fragile =
      false;  // Writer: may become unreadable, or change, at any time (pages of a file): copied first
};
inline constexpr size_t kImageNameLimit = 65536;

struct ImageTotals {
  uint64_t bytes = 0;   // size of the file
  uint64_t memory = 0;  // bytes of memory in it
  uint64_t checksum =
      0;  // of the trailer, which holds those of everything else but the data, whose are in the index
};

class ImageWriter {
 public:
  // Creates the file (0600; it must not exist). `expected_memory` (bytes, 0: unknown) only serves the message
  // when the disk is full. An image that is not finished is removed by the destructor.
  static Result<ImageWriter> create(const std::string& path, uint32_t seam_version,
                                    uint64_t expected_memory = 0);
  ImageWriter(ImageWriter&&) = default;
  ImageWriter& operator=(ImageWriter&&) = delete;
  ~ImageWriter();

  // Writes what is present of the region, read at its own addresses: it must be readable and must not change
  // meanwhile, unless it is fragile. Regions come in any order and do not overlap (finish() checks it). After
  // an error: give up.
  Status add_region(const Region& region);

  // Index, metadata and trailer, fsync, close. Not to be called twice.
  Result<ImageTotals> finish(const std::string& metadata);

 private:
  struct Entry {
    Region region;
    std::vector<uint64_t> checksums;  // one per kImageChunk of stored memory
  };

  explicit ImageWriter(const std::string& path) : path_(path) {}
  Status add_copied(const Region& region, std::vector<Extent>& stored, std::vector<uint64_t>& checksums);
  Status write_chunk(std::vector<iovec>& pieces, std::vector<uint64_t>& checksums);
  Status append(std::vector<iovec>& pieces);
  Error failure(int error_number) const;

  std::string path_;
  Descriptor file_;
  std::unique_ptr<ReadableMemory> readable_;  // for all fragile regions, from the first one on
  std::vector<char> gathered_;                // likewise: a chunk of copies
  uint64_t header_checksum_ = 0;
  uint64_t offset_ = 0;      // the next byte to write
  uint64_t memory_ = 0;      // stored so far
  uint64_t considered_ = 0;  // present so far, zero pages included
  uint64_t present_ = 0;     // of the regions added so far
  uint64_t expected_ = 0;
  uint64_t flushed_ = 0;  // write-back was begun up to here
  std::vector<Entry> entries_;
};

class ImageReader {
 public:
  // Checks everything but the data: kind of file, versions, trailer, index and metadata. A newer format or a
  // seam above `newest_seam` is refused; older ones are read.
  static Result<ImageReader> open(const std::string& path, uint32_t newest_seam = seam::kSeamVersion);

  const std::string& path() const { return path_; }
  uint32_t seam_version() const { return seam_version_; }
  const std::string& metadata() const { return metadata_; }
  const std::vector<Region>& regions() const { return regions_; }
  const ImageTotals& totals() const { return totals_; }

  // Reads region i to its own addresses, where fresh zero memory must be mapped read-write, and checks it.
  // Pages that are not stored are not touched.
  Status load_region(size_t i) const;

  // Checks the data too, without loading it.
  Status verify() const;

 private:
  struct Placement {
    uint64_t offset;                  // of the region's first stored byte in the file
    uint64_t bytes;                   // stored
    std::vector<uint64_t> checksums;  // one per chunk_
  };

  explicit ImageReader(const std::string& path) : path_(path) {}
  Status read_header(uint32_t newest_seam);
  Status read_trailer();
  Status read_index();
  Status check_regions() const;
  Status read(void* to, uint64_t bytes, uint64_t offset, const char* what) const;
  Error refusal(const std::string& why) const;
  Error damaged(const std::string& what, uint64_t begin, uint64_t end) const;
  Error damaged_chunk(size_t region, size_t chunk, const iovec& first) const;

  std::string path_;
  Descriptor file_;
  uint32_t seam_version_ = 0;
  uint64_t chunk_ = 0;
  uint64_t header_checksum_ = 0;
  uint64_t index_offset_ = 0, index_bytes_ = 0, index_checksum_ = 0;
  ImageTotals totals_;
  std::string metadata_;
  std::vector<Region> regions_;
  std::vector<Placement> placements_;
};

}  // namespace cropdl::restart
