// Sources of a region's pages. See restart/chunks.h.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/readable.h"
#include "restart/chunks.h"

namespace cropdl::restart {

// This process's memory at its own addresses, which must be readable.
class LivePages final : public PageSource {
 public:
  Status read(std::span<const Extent> runs, std::vector<iovec>* bytes) override {
    char* to = copy_->bytes;
    for (const Extent& run : runs) {
      const uint64_t size = run.end - run.begin;
      bytes->push_back({std::memcpy(to, reinterpret_cast<const void*>(run.begin), size), size});
      to += size;
    }
    return {};
  }

 private:
  struct alignas(kImagePage) Block {
    char bytes[kImageChunk];  // stays in the L2 cache from copying to writing
  };
  std::unique_ptr<Block> copy_ = std::make_unique<Block>();
};

// The same for memory that may become unreadable at any time (a file's pages).
class FragilePages final : public PageSource {
 public:
  explicit FragilePages(std::string name) : name_(std::move(name)) {}
  Status read(std::span<const Extent> runs, std::vector<iovec>* bytes) override {
    static_assert(ReadableMemory::kCopy >= kImageChunk);
    uint64_t offset = 0;
    for (const Extent& run : runs) {
      const char* copy = memory_.copy(run.begin, run.end - run.begin, offset);
      if (copy == nullptr)
        return Error{
            "the memory of {} cannot be read any more (the file was made shorter meanwhile, or its disk "
            "fails)",
            name_};
      bytes->push_back({const_cast<char*>(copy), run.end - run.begin});
      offset += run.end - run.begin;
    }
    return {};
  }

 private:
  std::string name_;
  ReadableMemory memory_;
};

// A regular file that is or was mapped with its byte `offset` at `begin`. Its last page is filled up with
// zeros, as by the kernel; later pages cannot be read.
class FilePages final : public PageSource {
 public:
  FilePages(const std::string& path, uint64_t begin, uint64_t offset)
      : file_(open_high(path, O_RDONLY | O_NONBLOCK | O_NOCTTY)), begin_(begin), offset_(offset) {
    if (!file_)
      trouble_ = errno_text(errno);
    else if (!is_regular(file_))
      file_.close(), trouble_ = "it is no regular file";
  }
  int fd() const { return file_.fd(); }  // -1: cannot be opened; read() returns the error
  Status read(std::span<const Extent> runs, std::vector<iovec>* bytes) override {
    if (!file_) return Error{trouble_};
    const uint64_t all = bytes_of(runs);
    if (buffer_.size() < all) buffer_.resize(all);
    char* to = buffer_.data();
    for (const Extent& run : runs) {
      const uint64_t wanted = run.end - run.begin;
      iovec left{to, wanted};
      const int failure = read_all(file_.fd(), {&left, 1}, offset_ + (run.begin - begin_));
      if (failure != 0 && failure != kEndOfFile) return Error{errno_text(failure)};
      if (left.iov_len >= kImagePage) return Error{"it is shorter now"};
      std::memset(left.iov_base, 0, left.iov_len);
      bytes->push_back({to, wanted});
      to += wanted;
    }
    return {};
  }

 private:
  Descriptor file_;
  std::string trouble_;
  uint64_t begin_, offset_;
  std::vector<char> buffer_;
};

}  // namespace cropdl::restart
