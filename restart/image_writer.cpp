// The writer of restart/image.h.
#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "base/checksum.h"
#include "base/format.h"
#include "base/time.h"
#include "restart/compression.h"
#include "restart/image.h"
#include "restart/image_layout.h"

namespace cropdl::restart {

namespace {

void add_extents(std::vector<Extent>& to, const std::vector<Extent>& more) {
  for (const Extent& extent : more)
    if (!to.empty() && to.back().end == extent.begin)
      to.back().end = extent.end;
    else
      to.push_back(extent);
}

void append_bytes(std::string& to, const void* from, size_t bytes) {
  to.append(static_cast<const char*>(from), bytes);
}

// Start write-back this often, so that the final fsync has little left to do.
constexpr uint64_t kFlushStep = 32 << 20;
// A smaller image is written sooner than a thread is made.
constexpr uint64_t kWorthAThread = 8 << 20;

}  // namespace

// The file: bytes are appended, from some size on by a thread beside the caller.
class ImageFile {
 public:
  ImageFile(Descriptor file, bool by_thread) : file_(std::move(file)), by_thread_(by_thread) {}

  uint64_t bytes() const { return bytes_; }

  // Returns 0 or the errno value of this write or of an earlier one. Consumes `pieces`.
  int append(std::span<iovec> pieces) {
    const uint64_t offset = bytes_, bytes = bytes_of(pieces);
    bytes_ += bytes;
    if (bytes > kImageChunk) {  // the index, which comes last
      if (const int error = end_thread(); error != 0) return error;
      return write(pieces, offset);
    }
    if (by_thread_ && !thread_.joinable() && offset >= kWorthAThread) {
      try {
        blocks_.resize(8);
        thread_ = std::jthread([this, offset](const std::stop_token& stop) { run(stop, offset); });
      } catch (const std::exception&) {  // no more threads, or memory: the caller writes
        by_thread_ = false;
        blocks_.clear();
      }
    }
    return thread_.joinable() ? hand_over(pieces) : write(pieces, offset);
  }

  // Writes what is left, then fsync and close. Returns 0 or the errno value.
  int finish() {
    if (const int error = end_thread(); error != 0) return error;
    if (::fsync(file_.fd()) != 0) return errno;
    return file_.close();
  }

 private:
  struct Block {
    std::vector<char> data = std::vector<char>(kImageChunk);
    size_t bytes = 0;
  };

  int write(std::span<iovec> pieces, uint64_t offset) {
    const uint64_t end = offset + bytes_of(pieces);
    if (const int error = write_all(file_.fd(), pieces, offset); error != 0) return error;
    if (end - flushed_ >= kFlushStep) {  // a hint: fsync reports errors
      ::sync_file_range(file_.fd(), static_cast<off_t>(flushed_), static_cast<off_t>(end - flushed_),
                        SYNC_FILE_RANGE_WRITE);
      flushed_ = end;
    }
    return 0;
  }

  // Copies `pieces`, at most a block in all (kImageChunk bytes), into the next block. Returns 0 or the errno
  // value of an earlier write.
  int hand_over(std::span<const iovec> pieces) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return filled_ - written_ < blocks_.size() || error_ != 0; });
    if (error_ != 0) return error_;
    Block& block = blocks_[filled_ % blocks_.size()];
    lock.unlock();  // the thread does not touch a block that is not filled
    gather(pieces, block.data.data());
    block.bytes = bytes_of(pieces);
    lock.lock();
    ++filled_;
    lock.unlock();
    changed_.notify_all();
    return 0;
  }

  // The thread: writes the blocks in their order, from `offset` on.
  void run(const std::stop_token& stop, uint64_t offset) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return written_ != filled_; }) && error_ == 0) {
      Block& block = blocks_[written_ % blocks_.size()];
      lock.unlock();
      iovec piece{block.data.data(), block.bytes};
      const int error = write({&piece, 1}, offset);
      offset += block.bytes;
      lock.lock();
      ++written_;
      error_ = error;
      changed_.notify_all();
    }
  }

  // Lets the thread write what is left. Returns 0 or the errno value of one of its writes.
  int end_thread() {
    if (!thread_.joinable()) return 0;
    thread_.request_stop();
    thread_.join();
    return error_;
  }

  Descriptor file_;
  bool by_thread_;
  uint64_t bytes_ = 0;    // appended so far
  uint64_t flushed_ = 0;  // write-back started up to here; the writing thread's
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Block> blocks_;          // made with the thread, which needs no memory later
  uint64_t filled_ = 0, written_ = 0;  // numbers of blocks
  int error_ = 0;
  std::jthread thread_;  // last: it uses the rest
};

ImageWriter::ImageWriter(const std::string& path, std::unique_ptr<ImageFile> file)
    : path_(path), file_(std::move(file)) {}
ImageWriter::ImageWriter(ImageWriter&&) noexcept = default;
ImageWriter::~ImageWriter() = default;

Error ImageWriter::failure(int error_number) const {
  std::string line = formatted("rank image {}: {}", path_, errno_text(error_number));
  if (error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG) {
    // Memory still to be written, less the share of zero pages so far.
    double left = static_cast<double>(std::max(expected_, present_) -
                                      std::min(considered_, std::max(expected_, present_)));
    const double written = static_cast<double>(file_->bytes() - sizeof(ImageHeader));
    double share = considered_ > 0 ? written / static_cast<double>(considered_) : 1.0;
    line += formatted(" (needed about {} more MB)", static_cast<uint64_t>(left * share / 1e6) + 1);
  }
  return Error{line};
}

Result<ImageWriter> ImageWriter::create(const std::string& path, uint32_t seam_version,
                                        uint64_t expected_memory, bool by_thread, bool compress) {
  Descriptor file = create_private_file(path, O_RDWR);
  if (!file) return Error{"rank image {}: cannot be created: {}", path, errno_text(errno)};
  ImageWriter writer(path, std::make_unique<ImageFile>(std::move(file), by_thread));
  writer.expected_ = expected_memory;
  if (compress) writer.compressor_ = std::make_unique<Compressor>();

  ImageHeader header{};
  std::memcpy(header.magic, kImageMagic, sizeof header.magic);
  header.format = compress ? kCompressedFormat : kImageFormat;
  header.seam = seam_version;
  header.page_bytes = kImagePage;
  header.chunk_bytes = kImageChunk;
  header.checksum = checksum(&header, offsetof(ImageHeader, checksum));
  writer.header_checksum_ = header.checksum;
  iovec piece{&header, sizeof header};
  if (Status written = writer.append({&piece, 1}); !written) return written.error();
  return writer;
}

Status ImageWriter::append(std::span<iovec> pieces) {
  const int error = file_->append(pieces);
  return error != 0 ? Status(failure(error)) : Status();
}

Status ImageWriter::begin_region(const Region& region) {
  if (!well_formed(region, region.present) || region.name.size() > kImageNameLimit)
    return Error{
        "rank image {}: region {} has addresses that are not page-aligned, ascending and within it: a fault "
        "of CropDL, please report it",
        path_, region.name};
  present_ += bytes_of(region.present);
  entries_.push_back({{region.begin, region.end, region.prot, region.name, {}, {}, region.kind}, {}, {}, {}});
  return {};
}

Status ImageWriter::put(const Chunk& chunk) {
  considered_ += chunk.looked_at;
  Entry& entry = entries_.back();
  if (!chunk.referenced.empty()) {
    add_extents(entry.region.referenced, chunk.referenced);
    entry.referenced.push_back(checksum(chunk.original));
  }
  if (chunk.stored.empty()) return {};
  add_extents(entry.region.present, chunk.stored);
  const uint64_t bytes = bytes_of(chunk.bytes);
  memory_ += bytes;
  if (entry.region.kind != RegionKind::kHostMemory) device_memory_ += bytes;
  pieces_ = chunk.bytes;
  if (compressor_) {
    const std::span<char> frame = compressor_->compress(pieces_);
    if (!frame.empty()) pieces_ = {{frame.data(), frame.size()}};
    entry.lengths.push_back(static_cast<uint32_t>(bytes_of(pieces_)));
  }
  entry.stored.push_back(checksum(pieces_));
  return append(pieces_);
}

Result<ImageTotals> ImageWriter::finish(const std::string& metadata) {
  std::vector<const Region*> by_address;
  for (const Entry& entry : entries_) by_address.push_back(&entry.region);
  std::ranges::sort(by_address, {}, &Region::begin);
  for (size_t i = 1; i < by_address.size(); ++i)
    if (by_address[i - 1]->end > by_address[i]->begin)
      return Error{"rank image {}: regions {} and {} overlap: a fault of CropDL, please report it", path_,
                   by_address[i - 1]->name, by_address[i]->name};

  std::string index;
  uint64_t regions = entries_.size();
  append_bytes(index, &regions, sizeof regions);
  for (const Entry& entry : entries_) {
    const Region& region = entry.region;
    const IndexEntry fixed{region.begin,
                           region.end,
                           region.prot,
                           static_cast<uint32_t>(region.name.size()),
                           static_cast<uint32_t>(region.kind),
                           0,
                           region.present.size(),
                           region.referenced.size()};
    append_bytes(index, &fixed, sizeof fixed);
    index += region.name;
    index.resize(padded_to_8(index.size()));
    append_bytes(index, region.present.data(), region.present.size() * sizeof(Extent));
    append_bytes(index, region.referenced.data(), region.referenced.size() * sizeof(Extent));
    append_bytes(index, entry.stored.data(), entry.stored.size() * sizeof(uint64_t));
    append_bytes(index, entry.referenced.data(), entry.referenced.size() * sizeof(uint64_t));
    append_bytes(index, entry.lengths.data(), entry.lengths.size() * sizeof(uint32_t));
    index.resize(padded_to_8(index.size()));
  }

  if (index.size() > index_limit(file_->bytes() - sizeof(ImageHeader), compressor_ != nullptr) ||
      metadata.size() > kMetadataLimit)
    return Error{
        "rank image {}: the list of the program's mappings takes {} bytes, more than can be stored; map "
        "fewer, larger areas",
        path_, index.size() + metadata.size()};
  ImageTrailer trailer{};
  std::memcpy(trailer.magic, kTrailerMagic, sizeof trailer.magic);
  trailer.header_checksum = header_checksum_;
  trailer.index_offset = file_->bytes();
  trailer.index_bytes = index.size();
  trailer.index_checksum = checksum(index);
  trailer.metadata_offset = trailer.index_offset + index.size();
  trailer.metadata_bytes = metadata.size();
  trailer.metadata_checksum = checksum(metadata);
  trailer.file_bytes = trailer.metadata_offset + trailer.metadata_bytes + sizeof trailer;
  trailer.checksum = checksum(&trailer, offsetof(ImageTrailer, checksum));

  std::vector<iovec> pieces{{index.data(), index.size()},
                            {const_cast<char*>(metadata.data()), metadata.size()},
                            {&trailer, sizeof trailer}};
  if (Status written = append(pieces); !written) return written.error();
  const int64_t written = monotonic_us();
  if (const int error = file_->finish(); error != 0) return failure(error);
  return ImageTotals{trailer.file_bytes, memory_, device_memory_, trailer.checksum,
                     in_seconds(monotonic_us() - written)};
}

}  // namespace cropdl::restart
