// A rank's image: the memory of one upper half and its metadata, in one file. docs/image-format.md describes
// every byte. Every byte is covered by a checksum, so damage is located and refused, never loaded. Lower half
// (LH FS base) and tools; one thread at a time per object. Reading throws nothing; writing throws only a lack
// of memory, as in chunks.h.
//
// Only pages that are present and not zero are stored, or referenced in a file. Without compression the
// reader does not copy stored pages, nor does the writer, unless a thread of its own writes them.
#pragma once

#include <sys/uio.h>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/folder.h"
#include "base/result.h"
#include "restart/chunks.h"

namespace cropdl::restart {

inline constexpr uint32_t kImageFormat = 2;
inline constexpr uint32_t kCompressedFormat = 3;  // the same, with compressed chunks; the highest

struct ImageHeader;  // image_layout.h
struct ImageTrailer;
class ImageFile;  // image_writer.cpp
class Compressor;

class ImageWriter final : public ChunkSink {
 public:
  // Creates the file (0600; it must not exist). `expected_memory` (bytes, 0: unknown) is for the message at a
  // full disk. An unfinished image is removed with its version, not here: freeing gigabytes would keep the
  // program stopped. `by_thread`: a processor is idle, so a thread may write while the caller reads and
  // hashes (a copy). `compress`: the image is smaller and takes longer (compression.h).
  static Result<ImageWriter> create(const std::string& path, uint32_t seam_version,
                                    uint64_t expected_memory = 0, bool by_thread = false,
                                    bool compress = false);
  ImageWriter(ImageWriter&&) noexcept;
  ~ImageWriter() override;  // waits for the thread

  // After an error, stop using the writer. finish() detects overlapping regions.
  Status begin_region(const Region& region) override;
  Status put(const Chunk& chunk) override;
  // Writes index, metadata and trailer, then fsync and close.
  Result<ImageTotals> finish(const std::string& metadata) override;

 private:
  struct Entry {
    Region region;
    std::vector<uint64_t> stored, referenced;  // checksums: one per chunk that has such pages
    std::vector<uint32_t> lengths;             // of the former in the file, if compressed
  };

  ImageWriter(const std::string& path, std::unique_ptr<ImageFile> file);
  Status append(std::span<iovec> pieces);
  Error failure(int error_number) const;

  std::string path_;
  std::unique_ptr<ImageFile> file_;
  std::unique_ptr<Compressor> compressor_;  // null: none
  std::vector<iovec> pieces_;               // of the chunk being written
  uint64_t header_checksum_ = 0;
  uint64_t memory_ = 0;  // bytes stored so far
  uint64_t device_memory_ = 0;
  uint64_t considered_ = 0;  // bytes examined so far, including zero pages
  uint64_t present_ = 0;     // bytes present in the regions added so far
  uint64_t expected_ = 0;
  std::vector<Entry> entries_;
};

class ImageReader {
 public:
  // Checks all but the data: file type, versions, trailer, index and metadata. Refuses another format and a
  // newer seam (interpose/seam/layout.h); reads older seams.
  static Result<ImageReader> open(const std::string& path);
  static Result<ImageReader> open(const Folder& version, const std::string& name);

  const std::string& path() const { return path_; }
  uint32_t seam_version() const { return seam_version_; }
  const std::string& metadata() const { return metadata_; }
  const std::vector<Region>& regions() const { return regions_; }
  const ImageTotals& totals() const { return totals_; }

  // Reads and checks region i, at its own addresses: fresh zero memory, writable. Touches only stored pages.
  Status load_region(size_t i) const;
  // The same, but into `target`.
  Status load_region(size_t i, PageTarget& target) const;
  // The same for the pages referenced in a file. Refuses, naming the file, if the file has changed.
  Status load_referenced(size_t i, PageSource& original) const { return check_referenced(i, original, true); }

  // Checks the data without loading it: of all regions, or of one.
  Status verify() const;
  Status verify_region(size_t i) const;
  Status verify_referenced(size_t i, PageSource& original) const {
    return check_referenced(i, original, false);
  }

 private:
  struct Placement {
    uint64_t offset;                           // of the region's first stored byte in the file
    std::vector<uint64_t> stored, referenced;  // checksums: one per chunk that has such pages
    std::vector<uint32_t> lengths;             // of the former in the file, if compressed
  };

  ImageReader(Descriptor file, const std::string& path) : path_(path), file_(std::move(file)) {}
  Status read_all_but_data();
  Status read_header(ImageHeader& header);
  Status read_trailer(const ImageHeader& header, ImageTrailer& trailer);
  Status check_bounds(const ImageTrailer& trailer) const;
  Status read_index(const ImageTrailer& trailer);
  Status read(std::vector<iovec> pieces, uint64_t offset, const std::string& what) const;
  template <class... A>
  Error refusal(fmt::format_string<A...> why, A&&... values) const {
    return Error{"rank image {}: {}", path_, formatted(why, std::forward<A>(values)...)};
  }
  Error damaged(const std::string& what, uint64_t begin, uint64_t end) const;
  Status check_referenced(size_t i, PageSource& original, bool load) const;

  std::string path_;
  Descriptor file_;
  uint32_t seam_version_ = 0;
  uint64_t chunk_ = 0;
  bool compressed_ = false;
  ImageTotals totals_;
  std::string metadata_;
  std::vector<Region> regions_;
  std::vector<Placement> placements_;
};

}  // namespace cropdl::restart
