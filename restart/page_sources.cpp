#include "restart/page_sources.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace cropdl::restart {

Status LivePages::read(std::span<const Extent> runs, std::vector<iovec>* bytes) {
  if (!copy_) copy_ = std::make_unique<Block>();
  char* to = copy_->bytes;
  for (const Extent& run : runs) {
    const uint64_t size = run.end - run.begin;
    bytes->push_back({std::memcpy(to, reinterpret_cast<const void*>(run.begin), size), size});
    to += size;
  }
  return {};
}

Status FragilePages::read(std::span<const Extent> runs, std::vector<iovec>* bytes) {
  static_assert(ReadableMemory::kCopy >= kImageChunk);
  uint64_t offset = 0;
  for (const Extent& run : runs) {
    const char* copy = memory_.copy(run.begin, run.end - run.begin, offset);
    if (copy == nullptr)
      return Error{
          "the memory of {} cannot be read any more (the file was made shorter meanwhile, or its disk fails)",
          name_};
    bytes->push_back({const_cast<char*>(copy), run.end - run.begin});
    offset += run.end - run.begin;
  }
  return {};
}

FilePages::FilePages(const std::string& path, uint64_t begin, uint64_t offset)
    : file_(open_high(path, O_RDONLY | O_NONBLOCK | O_NOCTTY)), begin_(begin), offset_(offset) {
  if (!file_)
    trouble_ = errno_text(errno);
  else if (!is_regular(file_))
    file_.close(), trouble_ = "it is no regular file";
}

Status FilePages::read(std::span<const Extent> runs, std::vector<iovec>* bytes) {
  if (!file_) return Error{trouble_};
  const uint64_t all = bytes_of(runs);
  if (buffer_.size() < all) buffer_.resize(all);
  char* to = buffer_.data();
  for (const Extent& run : runs) {
    const uint64_t wanted = run.end - run.begin;
    uint64_t got = 0;
    while (got < wanted) {
      const ssize_t n = ::pread(file_.fd(), to + got, wanted - got,
                                static_cast<off_t>(offset_ + (run.begin - begin_) + got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Error{errno_text(errno)};
      if (n == 0) break;
      got += static_cast<uint64_t>(n);
    }
    if (got + kImagePage <= wanted) return Error{"it is shorter now"};
    std::memset(to + got, 0, wanted - got);
    bytes->push_back({to, wanted});
    to += wanted;
  }
  return {};
}

}  // namespace cropdl::restart
