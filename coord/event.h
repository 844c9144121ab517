// Events by which threads wake the agent's from poll(). LH, any thread.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "base/file.h"

namespace cropdl::coord {

// `event`: an eventfd. Async-signal-safe but for errno.
inline void signal_event(int event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(event, &one, sizeof one);  // fails only at the maximum count
}

class Event {
 public:
  // `flags`: further ones of eventfd(2). With EFD_SEMAPHORE take() takes one signal, else all of them.
  explicit Event(int flags = 0)
      : event_(move_high(Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | flags)))) {}
  bool operator!() const { return !event_; }  // it could not be made; errno says why
  int fd() const { return event_.fd(); }
  void signal() const { signal_event(fd()); }
  // Whether there was a signal to take.
  bool take() const {
    uint64_t count;
    return read(fd(), &count, sizeof count) == sizeof count;
  }

 private:
  const Descriptor event_;
};

}  // namespace cropdl::coord
