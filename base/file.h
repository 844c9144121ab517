// Files as the image and the store need them: descriptors that close themselves, whole reads and writes,
// durable small files. Lower half (LH FS base) and tools; any thread. Errors say what was done to which file
// and why.
#pragma once

#include <sys/uio.h>
#include <cstdint>
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
  int close();  // 0 or the errno value; afterwards empty

 private:
  int fd_ = -1;
};

// Numbers of all that are open in the calling thread's table, ascending, without the one that this look
// needs. Empty where there is no /proc.
std::vector<int> open_descriptors();

// Descriptors of ours are numbered from here up where the limit allows it: the low numbers are the program's,
// which counts on them, and a restart needs them free. At first 900, below the usual soft limit of 1024;
// whoever knows more changes it.
int first_high_descriptor();
void set_first_high_descriptor(int fd);

// Whether a Descriptor of this process holds that number. Any thread.
bool is_own_descriptor(int fd);

// The same open file under a high number, close-on-exec; as it is if the process may not have such numbers.
Descriptor move_high(Descriptor low);

// open(2) with O_CLOEXEC, moved high. Empty with errno set on failure.
Descriptor open_high(const std::string& path, int flags, unsigned mode = 0);
Descriptor open_high_at(int directory, const std::string& path, int flags, unsigned mode = 0);  // openat(2)

// Makes and opens a file, or makes a directory, for its owner alone, whatever the program's umask is (it is
// the process's). Empty, or false, with errno set on failure, and if it is there already.
Descriptor create_private_file(const std::string& path, int access);  // O_WRONLY or O_RDWR
bool create_private_directory(const std::string& path);

// Whoever opens a name in a store with O_NONBLOCK (a FIFO there must not hang us) asks this next.
bool is_regular(const Descriptor& file);

// All of the pieces at `offset`, over short writes and EINTR. 0 or the errno value. Changes `pieces`.
int write_all(int fd, std::span<iovec> pieces, uint64_t offset);

// Likewise for reading; a file that ends before is kEndOfFile.
inline constexpr int kEndOfFile = -1;
int read_all(int fd, std::span<iovec> pieces, uint64_t offset);

// The file's text, if it is a regular file of at most `limit` bytes.
Result<std::string> read_small_file(const Descriptor& file, const std::string& path, uint64_t limit);

// What the kernel tells in a file of /proc or /sys, whose size is not known before; "" if it cannot be read.
std::string kernel_text(const std::string& path);

// Creates `path` (0600, must not exist), writes and fsyncs it. On failure the file is removed.
Status write_durable_file(const std::string& path, const std::string& text);

// The folder that a file or folder of that name stands in: "a/b" and "a/b/" in "a", "b" in ".".
std::string folder_of(std::string path);

// fsync of a directory: the names in it are durable.
Status sync_directory(const std::string& path);

}  // namespace cropdl
