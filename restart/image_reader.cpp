// The reader of restart/image.h. Trusts no input: every count is checked against the existing bytes before
// memory is allocated for it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/caught.h"
#include "base/checksum.h"
#include "base/format.h"
#include "interpose/seam/layout.h"
#include "restart/compression.h"
#include "restart/image.h"
#include "restart/image_layout.h"

namespace cropdl::restart {

namespace {

constexpr uint64_t kChunkLimit = 64 << 20;                      // for all formats; bounds verify()'s buffer
constexpr RegionKind kLastKind = RegionKind::kDeviceVariables;  // of the known ones

// Takes fields from the front of a byte range, never beyond its end.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : left_(bytes) {}
  bool take(void* to, uint64_t bytes) {
    if (bytes > left_.size()) return false;
    if (bytes > 0) std::memcpy(to, left_.data(), bytes);
    left_.remove_prefix(bytes);
    return true;
  }
  template <class T>
  bool take_array(std::vector<T>& to, uint64_t count) {
    if (count > left_.size() / sizeof(T)) return false;
    to.resize(count);
    return take(to.data(), count * sizeof(T));
  }
  bool take_text(std::string& to, uint64_t bytes) {
    if (padded_to_8(bytes) > left_.size()) return false;
    to.assign(left_.substr(0, bytes));
    left_.remove_prefix(padded_to_8(bytes));
    return true;
  }
  void skip_padding() { left_.remove_prefix(left_.size() % 8); }  // of a range whose size is a multiple of 8
  uint64_t left() const { return left_.size(); }

 private:
  std::string_view left_;
};

bool overlap(const std::vector<Extent>& a, const std::vector<Extent>& b) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].begin < b[j].end && b[j].begin < a[i].end) return true;
    a[i].end <= b[j].begin ? ++i : ++j;
  }
  return false;
}

// Number of visits by each_chunk() for ascending extents.
uint64_t chunks_of(const std::vector<Extent>& extents, uint64_t chunk_bytes) {
  uint64_t count = 0, next = 0;  // `next`: the first block not counted yet
  for (const Extent& extent : extents) {
    const uint64_t first = std::max(extent.begin / chunk_bytes, next);
    next = (extent.end - 1) / chunk_bytes + 1;
    count += next - std::min(first, next);
  }
  return count;
}

}  // namespace

bool well_formed(const Region& region, const std::vector<Extent>& extents) {
  bool good = region.begin < region.end && region.begin % kImagePage == 0 && region.end % kImagePage == 0;
  uint64_t last = region.begin;
  for (const Extent& extent : extents) {
    good = good && extent.begin >= last && extent.begin < extent.end && extent.end <= region.end &&
           extent.begin % kImagePage == 0 && extent.end % kImagePage == 0;
    last = extent.end;
  }
  return good;
}

Error ImageReader::damaged(const std::string& what, uint64_t begin, uint64_t end) const {
  return refusal("damaged in {} ({}): its checksum differs", what, offsets(begin, end));
}

Status ImageReader::read(std::vector<iovec> pieces, uint64_t offset, const std::string& what) const {
  const uint64_t bytes = bytes_of(pieces);
  const int error = read_all(file_.fd(), pieces, offset);
  if (error == 0) return {};
  const std::string place = formatted("{} ({})", what, offsets(offset, offset + bytes));
  if (error == kEndOfFile) return refusal("truncated: it ends within {}", place);
  return refusal("{} cannot be read: {}", place, errno_text(error));
}

Result<ImageReader> ImageReader::open(const std::string& path) {
  const Result<Folder> folder = Folder::open(folder_of(path), Folder::Whose::kAnybodys);
  if (!folder) return Error{"rank image " + folder.error().message};
  return open(*folder, file_name_of(path));
}

Result<ImageReader> ImageReader::open(const Folder& version, const std::string& name) {
  Result<Descriptor> file = version.file(name);
  if (!file) return Error{"rank image " + file.error().message};
  ImageReader reader(std::move(*file), version.path_of(name));
  const Status good = within_memory("rank image " + reader.path_, [&] { return reader.read_all_but_data(); });
  if (!good) return good.error();
  return reader;
}

Status ImageReader::read_all_but_data() {
  struct stat info;
  if (::fstat(file_.fd(), &info) != 0) return refusal("cannot be examined: {}", errno_text(errno));
  totals_.bytes = static_cast<uint64_t>(info.st_size);
  constexpr uint64_t least = sizeof(ImageHeader) + sizeof(uint64_t) + sizeof(ImageTrailer);
  if (totals_.bytes < least)
    return refusal("truncated: it has only {} bytes ({} is missing)", totals_.bytes,
                   offsets(totals_.bytes, least));
  ImageHeader header{};
  ImageTrailer trailer{};
  if (Status good = read_header(header); !good) return good;
  if (Status good = read_trailer(header, trailer); !good) return good;
  return read_index(trailer);
}

Status ImageReader::read_header(ImageHeader& header) {
  if (Status good = read({{&header, sizeof header}}, 0, "the header"); !good) return good;
  if (std::memcmp(header.magic, kImageMagic, sizeof header.magic) != 0)
    return refusal("is not a CropDL image, or is damaged in its first bytes ({})",
                   offsets(0, sizeof header.magic));
  if (header.checksum != checksum(&header, offsetof(ImageHeader, checksum)))
    return damaged("the header", 0, sizeof header);
  if (header.format > kCompressedFormat)
    return refusal(
        "was written by a newer CropDL (image format {}, this one reads {} and {}): restart it with that "
        "CropDL",
        header.format, kImageFormat, kCompressedFormat);
  if (header.format != 0 && header.format < kImageFormat)
    return refusal(
        "was written by an older CropDL (image format {}, this one reads {} and {}): restart it with that "
        "CropDL",
        header.format, kImageFormat, kCompressedFormat);
  if (header.seam > seam::kSeamVersion)
    return refusal(
        "was written by a newer CropDL (seam version {}, this one has {}): restart it with that CropDL",
        header.seam, seam::kSeamVersion);
  if (header.format == 0 || header.page_bytes != kImagePage || header.chunk_bytes == 0 ||
      header.chunk_bytes % kImagePage != 0 || header.chunk_bytes > kChunkLimit)
    return refusal("has a header of no known format ({})", offsets(0, sizeof header));
  seam_version_ = header.seam;
  chunk_ = header.chunk_bytes;
  compressed_ = header.format == kCompressedFormat;
  return {};
}

Status ImageReader::read_trailer(const ImageHeader& header, ImageTrailer& trailer) {
  const uint64_t begin = totals_.bytes - sizeof trailer;
  if (Status good = read({{&trailer, sizeof trailer}}, begin, "the trailer"); !good) return good;
  if (std::memcmp(trailer.magic, kTrailerMagic, sizeof trailer.magic) != 0 ||
      trailer.checksum != checksum(&trailer, offsetof(ImageTrailer, checksum)))
    return refusal("truncated, or damaged in the trailer ({})", offsets(begin, totals_.bytes));

  // The parts must be adjacent and fill the file. No sum overflows: each term is checked first.
  bool fits = trailer.file_bytes == totals_.bytes && trailer.header_checksum == header.checksum &&
              trailer.index_offset >= sizeof(ImageHeader) && trailer.index_offset <= begin &&
              trailer.index_bytes <= begin - trailer.index_offset &&
              trailer.metadata_offset == trailer.index_offset + trailer.index_bytes &&
              trailer.metadata_bytes == begin - trailer.metadata_offset;
  if (!fits)
    return refusal("is put together of parts that do not belong together (trailer at {})",
                   offsets(begin, totals_.bytes));

  if (Status good = check_bounds(trailer); !good) return good;
  metadata_.resize(trailer.metadata_bytes);
  if (Status good = read({{metadata_.data(), metadata_.size()}}, trailer.metadata_offset, "the metadata");
      !good)
    return good;
  if (checksum(metadata_) != trailer.metadata_checksum)
    return damaged("the metadata", trailer.metadata_offset, begin);
  totals_.checksum = trailer.checksum;
  return {};
}

// Before memory is allocated for index and metadata: are they on the disk? The file states their sizes, and
// its writer may not have written that much. No block of them is all zero.
Status ImageReader::check_bounds(const ImageTrailer& trailer) const {
  const auto holes = [this](uint64_t begin, uint64_t end) {
    const off_t hole = ::lseek(file_.fd(), static_cast<off_t>(begin), SEEK_HOLE);
    return hole >= 0 && static_cast<uint64_t>(hole) < end;
  };
  const uint64_t index = trailer.index_offset, metadata = trailer.metadata_offset;
  if (trailer.index_bytes > index_limit(index - sizeof(ImageHeader), compressed_) || holes(index, metadata))
    return refusal("damaged in the index ({}): it is too long, or has holes", offsets(index, metadata));
  const uint64_t end = metadata + trailer.metadata_bytes;
  if (trailer.metadata_bytes > kMetadataLimit || holes(metadata, end))
    return refusal("damaged in the metadata ({}): it is too long, or has holes", offsets(metadata, end));
  return {};
}

Status ImageReader::read_index(const ImageTrailer& trailer) {
  const uint64_t begin = trailer.index_offset, end = trailer.metadata_offset;
  std::string index(trailer.index_bytes, '\0');
  if (Status good = read({{index.data(), index.size()}}, begin, "the index"); !good) return good;
  if (checksum(index) != trailer.index_checksum) return damaged("the index", begin, end);

  Error malformed = refusal("has a malformed index ({})", offsets(begin, end));
  Fields fields(index);
  uint64_t count = 0;
  if (!fields.take(&count, sizeof count) || count > fields.left() / sizeof(IndexEntry)) return malformed;
  regions_.resize(count);
  placements_.resize(count);
  uint64_t offset = sizeof(ImageHeader);
  for (size_t i = 0; i < count; ++i) {
    Region& region = regions_[i];
    Placement& placement = placements_[i];
    IndexEntry fixed;
    if (!fields.take(&fixed, sizeof fixed) || fixed.name_bytes > kImageNameLimit || fixed.reserved != 0)
      return malformed;
    region.kind = static_cast<RegionKind>(fixed.kind);
    if (region.kind > kLastKind)
      return refusal(
          "was written by a newer CropDL (it has memory of kind {}, which this one does not know): "
          "restart it with that CropDL",
          fixed.kind);
    if (!fields.take_text(region.name, fixed.name_bytes) ||
        !fields.take_array(region.present, fixed.stored) ||
        !fields.take_array(region.referenced, fixed.referenced))
      return malformed;
    region.begin = fixed.begin;
    region.end = fixed.end;
    region.prot = fixed.prot;
    if (!well_formed(region, region.present) || !well_formed(region, region.referenced) ||
        overlap(region.present, region.referenced))
      return malformed;
    if (region.kind != RegionKind::kHostMemory && !region.referenced.empty()) return malformed;
    const uint64_t memory = bytes_of(region.present);  // disjoint: no overflow
    if (!fields.take_array(placement.stored, chunks_of(region.present, chunk_)) ||
        !fields.take_array(placement.referenced, chunks_of(region.referenced, chunk_)))
      return malformed;
    region.in_file = memory;
    if (compressed_) {
      if (!fields.take_array(placement.lengths, placement.stored.size())) return malformed;
      fields.skip_padding();
      region.in_file = std::accumulate(placement.lengths.begin(), placement.lengths.end(), uint64_t{0});
    }
    placement.offset = offset;
    if (region.in_file > begin - offset) return malformed;
    offset += region.in_file;
    totals_.memory += memory;
    if (region.kind != RegionKind::kHostMemory) totals_.device_memory += memory;
  }
  if (fields.left() != 0 || offset != begin) return malformed;

  std::vector<Extent> all;
  for (const Region& region : regions_) all.push_back({region.begin, region.end});
  std::ranges::sort(all, {}, &Extent::begin);
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i - 1].end > all[i].begin)
      return refusal("has overlapping regions at {:#x} in its index ({})", all[i].begin, offsets(begin, end));
  return {};
}

// --- The data, loaded or verified chunk by chunk.

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
  std::vector<iovec> pieces, of_frame;
  uint64_t offset = placements_[i].offset;
  size_t chunk = 0;
  std::optional<Decompressor> decompressor;
  std::vector<char> frame;
  const auto load = [&](std::span<const Extent> runs) -> Status {
    pieces.clear();
    if (Status room = target.room(runs, &pieces); !room) return room;
    const uint64_t bytes = bytes_of(runs), length = compressed_ ? placements_[i].lengths[chunk] : bytes;
    if (length < bytes) {
      if (!decompressor) decompressor.emplace();
      frame.resize(length);
      of_frame = {{frame.data(), length}};
    }
    const std::vector<iovec>& stored = length < bytes ? of_frame : pieces;
    if (Status got = read(stored, offset, "region " + region.name); !got) return got;
    if (length > bytes || checksum(stored) != placements_[i].stored[chunk++] ||
        (length < bytes && !decompressor->decompress(frame, pieces)))
      return damaged(formatted("region {}, memory from {:#x}",
                               region.name.empty() ? "(unnamed)" : region.name, runs.front().begin),
                     offset, offset + length);
    offset += length;
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
