// The file of restart/image.h.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "restart/image.h"

namespace cropdl::restart {

namespace {

// Start write-back this often, so that the final fsync has little left to do.
constexpr uint64_t kFlushStep = 32 << 20;
// A smaller image is written sooner than a thread is made.
constexpr uint64_t kWorthAThread = 8 << 20;

}  // namespace

// Writes blocks, each a copy of what one append() got, in their order.
class ImageFile::Thread {
 public:
  Thread(ImageFile& file, uint64_t offset)
      : file_(file), offset_(offset), thread_([this](const std::stop_token& stop) { run(stop); }) {}

  // At most kImageChunk bytes. Returns the errno value of an earlier write, or 0.
  int append(std::span<const iovec> pieces) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return filled_ - written_ < blocks_.size() || error_ != 0; });
    if (error_ != 0) return error_;
    Block& block = blocks_[filled_ % blocks_.size()];
    lock.unlock();  // the thread does not touch a block that is not filled
    block.bytes = 0;
    for (const iovec& one : pieces) {
      std::memcpy(block.data.data() + block.bytes, one.iov_base, one.iov_len);
      block.bytes += one.iov_len;
    }
    lock.lock();
    ++filled_;
    lock.unlock();
    changed_.notify_all();
    return 0;
  }

  // Writes what is left. Call once. Returns as append() does.
  int end() {
    thread_.request_stop();
    thread_.join();
    return error_;
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (!changed_.wait(lock, stop, [this] { return written_ != filled_; })) return;
      Block& block = blocks_[written_ % blocks_.size()];
      lock.unlock();
      iovec piece{block.data.data(), block.bytes};
      const int error = file_.write({&piece, 1}, offset_);
      offset_ += block.bytes;
      lock.lock();
      ++written_;
      error_ = error;
      changed_.notify_all();
      if (error != 0) return;
    }
  }

  struct Block {
    std::vector<char> data = std::vector<char>(kImageChunk);
    size_t bytes = 0;
  };

  ImageFile& file_;
  uint64_t offset_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::array<Block, 8> blocks_;
  uint64_t filled_ = 0, written_ = 0;  // numbers of blocks
  int error_ = 0;
  std::jthread thread_;  // last: it uses the rest
};

ImageFile::ImageFile(Descriptor file, bool by_thread) : file_(std::move(file)), by_thread_(by_thread) {}

ImageFile::~ImageFile() = default;

int ImageFile::write(std::span<iovec> pieces, uint64_t offset) {
  const uint64_t end = offset + bytes_of(pieces);
  if (const int error = write_all(file_.fd(), pieces, offset); error != 0) return error;
  if (end - flushed_ >= kFlushStep) {  // a hint: fsync reports errors
    ::sync_file_range(file_.fd(), static_cast<off_t>(flushed_), static_cast<off_t>(end - flushed_),
                      SYNC_FILE_RANGE_WRITE);
    flushed_ = end;
  }
  return 0;
}

int ImageFile::append(std::span<iovec> pieces) {
  const uint64_t offset = bytes_, bytes = bytes_of(pieces);
  bytes_ += bytes;
  if (bytes > kImageChunk) {  // the index, which comes last
    if (const int error = end_thread(); error != 0) return error;
    return write(pieces, offset);
  }
  if (by_thread_ && !thread_ && offset >= kWorthAThread) {
    try {
      thread_ = std::make_unique<Thread>(*this, offset);
    } catch (const std::exception&) {  // no more threads, or memory: the caller writes
      by_thread_ = false;
    }
  }
  return thread_ ? thread_->append(pieces) : write(pieces, offset);
}

int ImageFile::end_thread() {
  const int error = thread_ ? thread_->end() : 0;
  thread_.reset();
  return error;
}

int ImageFile::finish() {
  if (const int error = end_thread(); error != 0) return error;
  if (::fsync(file_.fd()) != 0) return errno;
  return file_.close();
}

}  // namespace cropdl::restart
