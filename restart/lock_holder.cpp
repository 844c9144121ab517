// See lock_holder.h.
#include "restart/lock_holder.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace cropdl::restart {

int lock_bytes(int fd, off_t first, off_t bytes) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = bytes;
  return ::fcntl(fd, F_SETLK, &lock) == 0 ? 0 : errno;
}

int LockHolder::lock(const Descriptor& file, off_t first) {
  // The thread must take no signal that is meant for the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this, fd = file.fd(), first] { hold(fd, first); });
  } catch (const std::system_error&) {  // no more threads for this user
    failure_ = lock_bytes(file.fd(), first, 0);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::unique_lock guard(mutex_);
  changed_.wait(guard, [this] { return failure_ != kUnknown; });
  return failure_;
}

void LockHolder::hold(int fd, off_t first) {
  // Others' descriptors are closed, so that this table keeps no pipe or device of theirs open. By the bare
  // system call: to the rest of the process, and to the thread sanitizer, they stay open.
  if (::unshare(CLONE_FILES) == 0)
    for (const int other : open_descriptors())
      if (other != fd) ::syscall(SYS_close, other);
  const int failure = lock_bytes(fd, first, 0);
  std::unique_lock guard(mutex_);
  failure_ = failure;
  changed_.notify_all();
  changed_.wait(guard, [this] { return ends_; });
  // Who joins a thread may be woken before the kernel has let go of its descriptors. Not by closing: the
  // table may be everybody's.
  struct flock lock {};
  lock.l_type = F_UNLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  if (failure == 0) ::fcntl(fd, F_SETLK, &lock);
}

LockHolder::~LockHolder() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard guard(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

}  // namespace cropdl::restart
