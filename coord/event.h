// Wakes the agent's thread from poll(). LH.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "base/file.h"

namespace cropdl::coord {

class Event {
 public:
  bool operator!() const { return !event_; }  // it could not be made; errno says why
  int fd() const { return event_.fd(); }
  // Any thread; async-signal-safe but for errno.
  void signal() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(fd(), &one, sizeof one);  // fails only at the maximum count
  }
  // Whether it was signalled since the last call.
  bool take() const {
    uint64_t count;
    return read(fd(), &count, sizeof count) == sizeof count;
  }

 private:
  const Descriptor event_ = move_high(Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
};

}  // namespace cropdl::coord
