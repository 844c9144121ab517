// Files for the image and the store: descriptors that close themselves, complete reads and writes, durable
// small files. Errors name operation, file and reason. LH (LH FS base) and tools; any thread.
#pragma once

#include <fcntl.h>
#include <sys/uio.h>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cropdl {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd);
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int close();  // returns 0 or the errno value; then empty

 private:
  int fd_ = -1;
};

// Returns the numbers that name the entries of a directory in /proc; none: it cannot be read. `own`: receives
// the descriptor that this function opens. Throws std::bad_alloc if the kernel lacks memory for it.
std::vector<int> numbers_in(const std::string& directory, int* own = nullptr);
// Of all open descriptors of the calling thread's table, ascending. Empty without /proc.
std::vector<int> open_descriptors();

// Gives the calling thread a descriptor table of its own (unshare(2), CLONE_FILES) with those that `stays`
// accepts: it holds open none that the other threads, which share a table, have closed. False, with nothing
// changed: forbidden.
bool leave_descriptor_table(const std::function<bool(int fd)>& stays);

// CropDL's descriptors have numbers from this one up where the limit allows it: the program expects the low
// numbers, and a restart needs them free. At first 900, below the usual soft limit of 1024.
int first_high_descriptor();
void set_first_high_descriptor(int fd);

// The lower half's begin below this number: every fork copies the kernel's table up to the highest one.
inline constexpr int kUsualTable = 16384;

// Whether a Descriptor of this process holds that number.
bool is_own_descriptor(int fd);

// While one lives, this process may have a descriptor of CropDL that is_own_descriptor() does not know: just
// being opened or closed, or held by the C++ library.
class DescriptorInHand {
 public:
  DescriptorInHand();
  ~DescriptorInHand();
  DescriptorInHand(const DescriptorInHand&) = delete;
  DescriptorInHand& operator=(const DescriptorInHand&) = delete;
  // Whether one lives. False after set_apart(): the agent and its threads have a table of their own.
  static bool any();
  static void set_apart();
};

// Returns the same open file under a high number, close-on-exec; `low` itself if there may be none.
Descriptor move_high(Descriptor low);

// openat(2) with O_CLOEXEC, moved to a high number. Empty with errno set on failure.
Descriptor open_high(const std::string& path, int flags, unsigned mode = 0, int directory = AT_FDCWD);

// A path to the open file `fd` of the calling thread, wherever its name leads by now.
std::string descriptor_path(int fd);

// Create and open a file, or create a directory, accessible to its owner only, whatever the program's umask.
// Empty, or false, with errno set on failure, also if the name exists.
// `access`: O_WRONLY or O_RDWR.
Descriptor create_private_file(const std::string& path, int access, int directory = AT_FDCWD);
bool create_private_directory(const std::string& path);

// Callers open names in a store with O_NONBLOCK, so that a FIFO cannot block them, and check this next.
bool is_regular(const Descriptor& file);

// Writes all pieces at `offset`, across short writes and EINTR; uses them up. Returns 0 or the errno value.
int write_all(int fd, std::span<iovec> pieces, uint64_t offset);

// Reads all pieces likewise; returns kEndOfFile if the file ends first. `pieces` are then what is missing.
inline constexpr int kEndOfFile = -1;
int read_all(int fd, std::span<iovec> pieces, uint64_t offset);

// Returns the file's text if it is a regular file of at most `limit` bytes.
Result<std::string> read_small_file(const Descriptor& file, const std::string& path, uint64_t limit);

// The text of a file in /proc or /sys, whose size is not known in advance, and where a symbolic link points;
// "" if it cannot be read.
std::string kernel_text(const std::string& path);
std::string link_text(const std::string& path);

// Returns the absolute path without links (realpath(3)); "" with errno set on failure.
std::string resolved_path(const std::string& path);
std::string resolved_or_same(const std::string& path);  // `path` itself on failure

Error cannot_be_written(const std::string& path, int failure);  // an errno value
// Writes a new file's text, fsyncs if `durable`, closes. Returns 0, or the errno value and removes it.
int write_new_file(Descriptor file, int directory, const std::string& name, const std::string& text,
                   bool durable);
// Creates `path` (0600, must not exist), writes and fsyncs it. Removes the file on failure.
Status write_durable_file(const std::string& path, const std::string& text);
// Writes a file anew, atomically and without fsync: readers find the former text or this one. Uses the name
// PATH.new meanwhile, so each file has one writer. The error is "PATH: cannot be written: …".
Status replace_file(const std::string& path, const std::string& text, unsigned mode = 0600);

std::string file_name_of(const std::string& path);  // "b" for "a/b" and "b"
std::string folder_of(std::string path);            // "a" for "a/b" and "a/b/", "." for "b"

Status sync_directory(const std::string& path);  // fsync(2) on it makes the names in it durable

}  // namespace cropdl
