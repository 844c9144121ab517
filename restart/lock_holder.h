// A thread that holds the part of a store's lock that the program cannot lose. A POSIX lock belongs to a
// table of descriptors, and closing any descriptor of the file in that table drops it (man 2 fcntl): a
// program that copies its store (`shutil.copytree`, tar) does so. This thread has a table of its own.
// Children do not inherit the lock, and it ends with the process. LH (LH FS base) and tools; used by one
// thread at a time.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/file.h"

namespace cropdl::restart {

class LockHolder {
 public:
  ~LockHolder();  // unlocks; in the process that has locked

  // Locks the file's bytes from `first` on. 0 or the errno value (EAGAIN, EACCES: another has them). Where no
  // thread can be had, or a sandbox forbids it a table of its own, the lock is as one of the calling thread.
  int lock(const Descriptor& file, off_t first);
  bool is_of_this_process() const { return process_ == ::getpid(); }  // not of its parent, before fork()

 private:
  void hold(int fd, off_t first);

  const pid_t process_ = ::getpid();
  std::thread thread_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int failure_ = kUnknown;  // of locking
  bool ends_ = false;
  static constexpr int kUnknown = -1;
};

// Sets a lock on the bytes [first, first + bytes) of the file, to its end and beyond for 0 bytes, in the
// calling thread's table of descriptors, or takes it away (F_UNLCK). 0 or the errno value.
int lock_bytes(int fd, off_t first, off_t bytes, short type = F_WRLCK);

}  // namespace cropdl::restart
