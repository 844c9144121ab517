#include "base/file.h"

#include <dirent.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
#include <new>

namespace cropdl {
namespace {

using VectorCall = ssize_t (*)(int, const iovec*, int, off_t);

int transfer_all(VectorCall call, int fd, std::span<iovec> pieces, uint64_t offset, int at_zero) {
  while (!pieces.empty()) {
    if (pieces.front().iov_len == 0) {
      pieces = pieces.subspan(1);
      continue;
    }
    int count = static_cast<int>(std::min<size_t>(pieces.size(), IOV_MAX));
    ssize_t moved = call(fd, pieces.data(), count, static_cast<off_t>(offset));
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return errno;
    if (moved == 0) return at_zero;
    offset += static_cast<uint64_t>(moved);
    for (size_t left = static_cast<size_t>(moved); left > 0;) {
      iovec& piece = pieces.front();
      size_t part = std::min(left, piece.iov_len);
      piece.iov_base = static_cast<char*>(piece.iov_base) + part;
      piece.iov_len -= part;
      left -= part;
      if (piece.iov_len == 0) pieces = pieces.subspan(1);
    }
  }
  return 0;
}

constexpr int kRegistered = 1 << 16;
std::atomic<uint64_t> own_descriptors[kRegistered / 64];
std::atomic<int> first_high{900};
std::atomic<int> in_hand{0};
std::atomic<bool> are_apart{false};

void note_own(int fd, bool own) {
  if (fd < 0 || fd >= kRegistered) return;
  const uint64_t bit = 1ull << (fd % 64);
  if (own)
    own_descriptors[fd / 64] |= bit;
  else
    own_descriptors[fd / 64] &= ~bit;
}

}  // namespace

Error cannot_be_written(const std::string& path, int failure) {
  return Error{"{}: cannot be written: {}", path, errno_text(failure)};
}

bool is_own_descriptor(int fd) {
  return fd >= 0 && fd < kRegistered && (own_descriptors[fd / 64] >> (fd % 64) & 1) != 0;
}

std::vector<int> numbers_in(const std::string& directory, int* own) {
  std::vector<int> found;
  const DescriptorInHand its_descriptor;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(directory.c_str()), closedir);
  if (!stream && errno == ENOMEM) throw std::bad_alloc();  // not the same as none
  if (!stream) return found;
  if (own != nullptr) *own = dirfd(stream.get());
  for (;;) {
    errno = 0;  // malloc(3) may leave ENOMEM there though it succeeds
    const dirent* entry = readdir(stream.get());
    if (entry == nullptr && errno == ENOMEM) throw std::bad_alloc();
    if (entry == nullptr) return found;
    if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9') found.push_back(atoi(entry->d_name));
  }
}

std::vector<int> open_descriptors() {
  int own = -1;
  std::vector<int> found = numbers_in("/proc/thread-self/fd", &own);
  std::erase(found, own);
  std::sort(found.begin(), found.end());
  return found;
}

bool leave_descriptor_table(const std::function<bool(int fd)>& stays) {
  if (::unshare(CLONE_FILES) != 0) return false;
  // Closes descriptors one by one: the kernel would walk the whole range, and the table is long. Uses the
  // bare system call, since for the rest of the process, and the thread sanitizer, the descriptors stay open.
  for (const int fd : open_descriptors())
    if (!stays(fd)) ::syscall(SYS_close, fd);
  return true;
}

int first_high_descriptor() { return first_high; }
void set_first_high_descriptor(int fd) { first_high = fd; }

DescriptorInHand::DescriptorInHand() { ++in_hand; }
DescriptorInHand::~DescriptorInHand() { --in_hand; }
bool DescriptorInHand::any() { return in_hand != 0 && !are_apart; }
void DescriptorInHand::set_apart() { are_apart = true; }

Descriptor::Descriptor(int fd) : fd_(fd) { note_own(fd, true); }

int Descriptor::close() {
  const DescriptorInHand closing;
  int fd = std::exchange(fd_, -1);
  note_own(fd, false);
  // close(2): Linux releases the descriptor even on EINTR; it must not be closed again.
  return fd >= 0 && ::close(fd) != 0 && errno != EINTR ? errno : 0;
}

Descriptor move_high(Descriptor low) {
  const DescriptorInHand copy;
  const int high = ::fcntl(low.fd(), F_DUPFD_CLOEXEC, first_high_descriptor());
  return high < 0 ? std::move(low) : Descriptor(high);
}

Descriptor open_high(const std::string& path, int flags, unsigned mode, int directory) {
  const DescriptorInHand opening;
  int low;
  do {
    low = ::openat(directory, path.c_str(), flags | O_CLOEXEC, mode);
  } while (low < 0 && errno == EINTR);
  if (low < 0) return {};
  return move_high(Descriptor(low));
}

std::string descriptor_path(int fd) { return "/proc/thread-self/fd/" + std::to_string(fd); }

Descriptor create_private_file(const std::string& path, int access, int directory) {
  Descriptor file = open_high(path, access | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, directory);
  if (file && ::fchmod(file.fd(), 0600) != 0) {
    const int why = errno;
    ::unlinkat(directory, path.c_str(), 0);
    file.close();
    errno = why;
  }
  return file;
}

bool create_private_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0) return false;
  // Through a descriptor: others may write to the folder around it, and put a link in its place.
  const Descriptor made = open_high(path, O_PATH | O_DIRECTORY | O_NOFOLLOW);
  if (made && ::chmod(descriptor_path(made.fd()).c_str(), 0700) == 0) return true;
  const int why = errno;
  ::rmdir(path.c_str());
  errno = why;
  return false;
}

bool is_regular(const Descriptor& file) {
  struct stat info {};
  return ::fstat(file.fd(), &info) == 0 && S_ISREG(info.st_mode);
}

int write_all(int fd, std::span<iovec> pieces, uint64_t offset) {
  return transfer_all(::pwritev, fd, pieces, offset, ENOSPC);
}

int read_all(int fd, std::span<iovec> pieces, uint64_t offset) {
  return transfer_all(::preadv, fd, pieces, offset, kEndOfFile);
}

Result<std::string> read_small_file(const Descriptor& file, const std::string& path, uint64_t limit) {
  struct stat info;
  if (::fstat(file.fd(), &info) != 0) return Error{"{}: cannot be examined: {}", path, errno_text(errno)};
  if (!S_ISREG(info.st_mode)) return Error{path + ": is not a regular file"};
  if (static_cast<uint64_t>(info.st_size) > limit)
    return Error{"{}: is implausibly large ({} bytes)", path, info.st_size};
  std::string text(static_cast<size_t>(info.st_size), '\0');
  iovec piece{text.data(), text.size()};
  int failure = read_all(file.fd(), {&piece, 1}, 0);
  if (failure == kEndOfFile) return Error{path + ": became shorter while it was read"};
  if (failure != 0) return Error{"{}: cannot be read: {}", path, errno_text(failure)};
  return text;
}

std::string kernel_text(const std::string& path) {
  const Descriptor file = open_high(path, O_RDONLY);
  std::string text;
  char piece[4096];  // the kernel returns generated text in pieces of at most this size
  for (;;) {
    const ssize_t n = ::read(file.fd(), piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return "";
    if (n == 0) return text;
    text.append(piece, static_cast<size_t>(n));
  }
}

std::string link_text(const std::string& path) {
  char text[PATH_MAX];
  const ssize_t n = ::readlink(path.c_str(), text, sizeof text);
  return std::string(text, n > 0 ? static_cast<size_t>(n) : 0);
}

std::string resolved_path(const std::string& path) {
  char* const real = ::realpath(path.c_str(), nullptr);
  std::string text = real != nullptr ? real : "";
  ::free(real);
  return text;
}

std::string resolved_or_same(const std::string& path) {
  const std::string resolved = resolved_path(path);
  return resolved.empty() ? path : resolved;
}

int write_new_file(Descriptor file, int directory, const std::string& name, const std::string& text,
                   bool durable) {
  iovec piece{const_cast<char*>(text.data()), text.size()};
  int failure = write_all(file.fd(), {&piece, 1}, 0);
  if (failure == 0 && durable && ::fsync(file.fd()) != 0) failure = errno;
  if (int at_close = file.close(); failure == 0) failure = at_close;
  if (failure != 0) ::unlinkat(directory, name.c_str(), 0);
  return failure;
}

Status write_durable_file(const std::string& path, const std::string& text) {
  Descriptor file = create_private_file(path, O_WRONLY);
  if (!file) return Error{"{}: cannot be created: {}", path, errno_text(errno)};
  const int failure = write_new_file(std::move(file), AT_FDCWD, path, text, true);
  return failure == 0 ? Status() : cannot_be_written(path, failure);
}

Status replace_file(const std::string& path, const std::string& text, unsigned mode) {
  const std::string fresh = path + ".new";
  ::unlink(fresh.c_str());  // left by a killed process; of any type
  Descriptor file = create_private_file(fresh, O_WRONLY);
  if (!file) return cannot_be_written(path, errno);
  int failure = ::fchmod(file.fd(), mode) != 0 ? errno : 0;
  if (failure == 0) failure = write_new_file(std::move(file), AT_FDCWD, fresh, text, false);
  if (failure == 0 && ::rename(fresh.c_str(), path.c_str()) != 0) failure = errno;
  if (failure == 0) return {};
  ::unlink(fresh.c_str());
  return cannot_be_written(path, failure);
}

std::string file_name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string folder_of(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

Status sync_directory(const std::string& path) {
  Descriptor directory = open_high(path, O_RDONLY | O_DIRECTORY);
  if (!directory) return Error{"{}: cannot be opened: {}", path, errno_text(errno)};
  if (::fsync(directory.fd()) != 0 && errno != EINVAL)
    return Error{"{}: cannot be made durable: {}", path, errno_text(errno)};
  return {};
}

}  // namespace cropdl
