// See lock_holder.h.
#include "restart/lock_holder.h"

#include <pthread.h>

#include <cerrno>
#include <csignal>
#include <exception>

#include "base/caught.h"

namespace cropdl::restart {

int lock_bytes(int fd, off_t first, off_t bytes, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = bytes;
  return ::fcntl(fd, F_SETLK, &lock) == 0 ? 0 : errno;
}

int LockHolder::lock(const Descriptor& file, off_t first) {
  // The thread must consume no signal meant for the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ =
        std::jthread([this, fd = file.fd(), first](const std::stop_token& stop) { hold(stop, fd, first); });
  } catch (const std::exception&) {  // no thread available for this user, or no memory
    failure_ = lock_bytes(file.fd(), first, 0);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::unique_lock guard(mutex_);
  changed_.wait(guard, [this] { return failure_.has_value(); });
  return *failure_;
}

void LockHolder::hold(const std::stop_token& stop, int fd, off_t first) {
  int failure = ENOMEM;
  [[maybe_unused]] const Status left = caught([&] {
    leave_descriptor_table([fd](int other) { return other == fd; });
    failure = lock_bytes(fd, first, 0);
  });
  std::unique_lock guard(mutex_);
  failure_ = failure;
  changed_.notify_all();
  changed_.wait(guard, stop, [] { return false; });
  // Unlock: join() may return before the kernel has closed descriptors. No close: the table may be shared.
  if (failure == 0) lock_bytes(fd, first, 0, F_UNLCK);
}

}  // namespace cropdl::restart
