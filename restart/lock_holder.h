// A thread that holds the part of a store's lock that the program cannot drop. Closing any descriptor of a
// file drops the POSIX locks of that descriptor table (man 2 fcntl); a program that copies its store
// (`shutil.copytree`, tar) does so. So this thread has its own table. Children do not inherit the lock; it
// ends with the process, or with the object, which is destroyed only in the process that locked. LH (LH FS
// base) and tools; one thread at a time.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/file.h"

namespace cropdl::restart {

class LockHolder {
 public:
  // Locks the file from `first` on. 0 or the errno value (EAGAIN, EACCES: held by another process). Without a
  // thread, or if a sandbox forbids its own table, the lock is the calling thread's.
  int lock(const Descriptor& file, off_t first);
  bool is_of_this_process() const { return process_ == ::getpid(); }  // false in a forked child

 private:
  void hold(const std::stop_token& stop, int fd, off_t first);

  const pid_t process_ = ::getpid();
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<int> failure_;  // under mutex_; errno value of locking, 0: locked; empty: not yet known
  std::jthread thread_;         // last: it uses the rest
};

// Locks or unlocks (F_UNLCK) [first, first + bytes) of the file in the calling thread's descriptor table; 0
// bytes: to the end and beyond. Returns 0 or the errno value.
int lock_bytes(int fd, off_t first, off_t bytes, short type = F_WRLCK);

}  // namespace cropdl::restart
