// The fixed structures of an image file (docs/image-format.md), private to reader and writer. Little-endian:
// CropDL runs on x86-64 only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/format.h"
#include "restart/chunks.h"

namespace cropdl::restart {

inline constexpr char kImageMagic[8] = {'C', 'R', 'O', 'P', 'D', 'L', 'I', 'M'};
inline constexpr char kTrailerMagic[8] = {'C', 'R', 'O', 'P', 'D', 'L', 'E', 'N'};

// One page, so that the data after it is page-aligned. Its size and the positions of magic, format and
// checksum are the same in every format.
struct ImageHeader {
  char magic[8];
  uint32_t format;
  uint32_t seam;
  uint32_t page_bytes;
  uint32_t chunk_bytes;
  char reserved[4096 - 32];
  uint64_t checksum;  // of all before it
};
static_assert(sizeof(ImageHeader) == 4096);

// Followed by name (zero-padded to 8), extents of stored pages and of referenced pages, checksums of chunks
// with stored pages and of those with referenced pages; if compressed, then by the length in the file of each
// chunk with stored pages (uint32_t, zero-padded to 8).
struct IndexEntry {
  uint64_t begin;
  uint64_t end;
  uint32_t prot;
  uint32_t name_bytes;
  uint32_t kind;
  uint32_t reserved;
  uint64_t stored;
  uint64_t referenced;
};
static_assert(sizeof(IndexEntry) == 48);

struct ImageTrailer {
  char magic[8];
  uint64_t header_checksum;
  uint64_t index_offset;
  uint64_t index_bytes;
  uint64_t index_checksum;
  uint64_t metadata_offset;
  uint64_t metadata_bytes;
  uint64_t metadata_checksum;
  uint64_t file_bytes;
  uint64_t checksum;  // of all before it
};
static_assert(sizeof(ImageTrailer) == 80);

// Limits for writing and reading. For the index: the most that stored pages may take (24 bytes each), plus
// room for the rest.
inline constexpr uint64_t kMetadataLimit = 256 << 20;
constexpr uint64_t index_limit(uint64_t data_bytes, bool compressed) {
  // A compressed chunk has 13 bytes at least, and up to 528 in the index.
  return (256 << 20) + (compressed ? std::min(data_bytes, uint64_t{1} << 48) * 64 : data_bytes / 4096 * 24);
}

constexpr uint64_t padded_to_8(uint64_t n) { return (n + 7) & ~uint64_t{7}; }

// Whether the region's and the extents' addresses are page-aligned, ascending and within it.
bool well_formed(const Region& region, const std::vector<Extent>& extents);

// For messages.
inline std::string offsets(uint64_t begin, uint64_t end) {
  return formatted("file offset {} to {}", begin, end);
}

}  // namespace cropdl::restart
