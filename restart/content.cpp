#include "restart/content.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/caught.h"
#include "base/checksum.h"
#include "base/file.h"

namespace cropdl::restart {

namespace {

constexpr uint64_t kBlock = 64 << 10;

// Returns the offset of the next data at or after `at` (a hole is zeros), or `end` if there is none.
uint64_t next_data(int fd, uint64_t at, uint64_t end) {
  const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
  if (data >= 0) return std::min(static_cast<uint64_t>(data), end);
  return errno == ENXIO ? end : at;  // not every file system reports holes
}

bool is_zero(const std::vector<char>& block, size_t n) {
  return n == 0 || (block[0] == 0 && std::memcmp(block.data(), block.data() + 1, n - 1) == 0);
}

int read_block(int fd, std::vector<char>& block, size_t n, uint64_t at) {
  iovec piece{block.data(), n};
  return read_all(fd, {&piece, 1}, at);
}
int write_block(int fd, std::vector<char>& block, size_t n, uint64_t at) {
  iovec piece{block.data(), n};
  return write_all(fd, {&piece, 1}, at);
}

// Calls visit(block, n, at) for the blocks of [from, to) that are not zero, until it returns an errno value.
// Returns 0, that value, or what reading returned; *sum: their checksum.
template <class Visit>
int each_block(int fd, uint64_t from, uint64_t to, uint64_t* sum, Visit visit) {
  std::vector<char> block(kBlock);
  std::vector<uint64_t> sums;
  for (uint64_t at = from; at < to;) {
    at = std::max(at, next_data(fd, at, to) / kBlock * kBlock);
    if (at >= to) break;
    const size_t n = std::min(kBlock - at % kBlock, to - at);
    if (const int failure = read_block(fd, block, n, at); failure != 0) return failure;
    if (!is_zero(block, n)) {
      sums.push_back(at), sums.push_back(checksum(block.data(), n));
      if (const int failure = visit(block, n, at); failure != 0) return failure;
    }
    at += n;
    if (next_data(fd, at, to) >= to) break;
  }
  *sum = checksum(sums.data(), sums.size() * sizeof sums[0]);
  return 0;
}

Error cannot(const std::string& name, const char* what, int failure) {
  return Error{"{}: {}: {}", name, what,
               failure == kEndOfFile ? "it has become shorter" : errno_text(failure)};
}

}  // namespace

Result<Descriptor> open_stored(const Folder& version, const std::string& stored) {
  const size_t slash = std::min(stored.find('/'), stored.size());
  const std::string name = stored.substr(std::min(slash + 1, stored.size()));
  if (!is_plain_name(stored.substr(0, slash)) || !is_plain_name(name))
    return Error{"{}: `{}` is no name of a file saved beside an image", version.path(), stored};
  const Result<Folder> folder = version.folder(stored.substr(0, slash));
  if (!folder) return folder.error();
  return folder->file(name);
}

Result<uint64_t> content_checksum(int fd, uint64_t from, uint64_t to, const std::string& name) {
  return within_memory(name, [&]() -> Result<uint64_t> {
    struct stat info;
    if (::fstat(fd, &info) != 0) return cannot(name, "cannot be examined", errno);
    if (static_cast<uint64_t>(info.st_size) < to) return cannot(name, "cannot be read", kEndOfFile);
    uint64_t sum = 0;
    const int failure = each_block(fd, from, to, &sum, [](auto&...) { return 0; });
    if (failure != 0) return cannot(name, "cannot be read", failure);
    return sum;
  });
}

Result<uint64_t> copy_content(int from, int to, uint64_t bytes, const std::string& name) {
  struct stat info;
  // Only a whole file can be cloned. The program is stopped, but other processes may write to the file.
  if (::fstat(from, &info) == 0 && static_cast<uint64_t>(info.st_size) == bytes &&
      ::ioctl(to, FICLONE, from) == 0)
    return content_checksum(to, 0, bytes, name);
  uint64_t sum = 0;
  int failure = ::ftruncate(to, static_cast<off_t>(bytes)) != 0 ? errno : 0;
  if (failure == 0)
    failure = each_block(from, 0, bytes, &sum, [to](std::vector<char>& block, size_t n, uint64_t at) {
      return write_block(to, block, n, at);
    });
  if (failure != 0) return cannot(name, "cannot be saved", failure);
  return sum;
}

Status put_back_content(int from, int to, uint64_t bytes, const std::string& name, bool* changed) {
  *changed = false;
  struct stat info;
  if (::fstat(to, &info) != 0) return cannot(name, "cannot be examined", errno);
  const uint64_t has = static_cast<uint64_t>(info.st_size);
  std::vector<char> wanted(kBlock), there(kBlock);
  for (uint64_t at = 0; at < bytes; at += kBlock) {
    // Skip what is a hole in both files.
    const uint64_t data =
        std::min(next_data(from, at, bytes), has > at ? next_data(to, at, std::min(has, bytes)) : bytes);
    if (at < data / kBlock * kBlock) at = data / kBlock * kBlock;
    if (at >= bytes) break;
    const size_t n = std::min(kBlock, bytes - at);
    int failure = read_block(from, wanted, n, at);
    const size_t had = has > at ? std::min<uint64_t>(n, has - at) : 0;
    std::fill(there.begin(), there.end(), '\0');  // beyond its end `to` reads as zeros
    if (failure == 0 && had > 0) failure = read_block(to, there, had, at);
    if (failure != 0) return cannot(name, "cannot be read", failure);
    if (std::memcmp(wanted.data(), there.data(), n) == 0) continue;
    *changed = true;
    // Restore a hole as a hole, if the file system can.
    if (is_zero(wanted, n) && ::fallocate(to, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                          static_cast<off_t>(at), static_cast<off_t>(n)) == 0)
      continue;
    failure = write_block(to, wanted, n, at);
    if (failure != 0) return cannot(name, "cannot be written", failure);
  }
  if (has == bytes) return {};
  *changed = true;
  if (::ftruncate(to, static_cast<off_t>(bytes)) != 0)
    return cannot(name, "cannot be cut to its size", errno);
  return {};
}

bool has_size_and_time(const struct stat& file, uint64_t size, int64_t modified) {
  return static_cast<uint64_t>(file.st_size) == size &&
         file.st_mtim.tv_sec * 1'000'000'000 + file.st_mtim.tv_nsec == modified;
}

Status check_data_set(const std::string& path, int fd, int64_t size, int64_t modified) {
  struct stat info {};
  const int failure = (fd >= 0 ? ::fstat(fd, &info) : ::stat(path.c_str(), &info)) != 0 ? errno : 0;
  if (failure != 0 || !S_ISREG(info.st_mode))
    return Error{
        "{}, which the program has mapped and only reads, is not saved, and {}; put it back and try again",
        path, failure == 0 ? "no file is there now" : "cannot be found: " + errno_text(failure)};
  if (has_size_and_time(info, static_cast<uint64_t>(size), modified)) return {};
  return Error{
      "{}, which the program has mapped and only reads, is not saved, and is not as it was when the "
      "checkpoint was taken ({} bytes, then {} bytes, or another time); put it back and try again (or go on "
      "with it as it is: cropdl-restart --files=keep)",
      path, info.st_size, size};
}

}  // namespace cropdl::restart
