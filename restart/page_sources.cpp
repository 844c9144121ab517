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

}  // namespace cropdl::restart
