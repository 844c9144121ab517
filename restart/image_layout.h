// The fixed structures of an image file, as docs/image-format.md describes them; shared by its reader and
// writer alone. Little-endian, as CropDL runs on x86-64 only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cropdl::restart {

inline constexpr char kImageMagic[8] = {'C', 'R', 'O', 'P', 'D', 'L', 'I', 'M'};
inline constexpr char kTrailerMagic[8] = {'C', 'R', 'O', 'P', 'D', 'L', 'E', 'N'};

// One page, so that the data behind it stays page-aligned in the file. Its size and the places of magic,
// format and checksum are the same in every format.
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

// Followed by name (zero-padded to 8), extents of stored pages, of referenced pages, checksums of the chunks
// with stored pages, of those with referenced ones.
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

// Longer ones are not written, and not read. Of the index: what each stored page may take, and room for the
// rest.
inline constexpr uint64_t kMetadataLimit = 256 << 20;
constexpr uint64_t index_limit(uint64_t data_bytes) { return (256 << 20) + data_bytes / 4096 * 24; }

constexpr uint64_t padded_to_8(uint64_t n) { return (n + 7) & ~uint64_t{7}; }

}  // namespace cropdl::restart
