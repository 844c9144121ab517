// The agent's sleep. Agent's thread (LH FS base).
#pragma once

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <vector>

#include "base/time.h"

namespace cropdl::coord {

// For ppoll(2), which refuses more descriptors than RLIMIT_NOFILE; pselect6(2) only requires that the table
// holds them. Sets of any size, unlike the C library's.
inline long wait_by_select(std::vector<pollfd>* fds, timespec* timeout) {
  constexpr size_t kWord = 64;
  int end = 0;
  for (const pollfd& f : *fds) end = std::max(end, f.fd + 1);
  std::vector<uint64_t> in(static_cast<size_t>(end) / kWord + 1), out(in.size());
  const auto word = [](std::vector<uint64_t>& set, int fd) -> uint64_t& {
    return set[static_cast<size_t>(fd) / kWord];
  };
  const auto bit = [](int fd) { return uint64_t{1} << (static_cast<size_t>(fd) % kWord); };
  for (const pollfd& f : *fds) {
    if (f.fd < 0) continue;
    if ((f.events & POLLIN) != 0) word(in, f.fd) |= bit(f.fd);
    if ((f.events & POLLOUT) != 0) word(out, f.fd) |= bit(f.fd);
  }
  const long ready = syscall(SYS_pselect6, end, in.data(), out.data(), nullptr, timeout, nullptr);
  for (pollfd& f : *fds) {
    f.revents = 0;
    if (ready <= 0 || f.fd < 0) continue;
    if ((word(in, f.fd) & bit(f.fd)) != 0) f.revents |= POLLIN;
    if ((word(out, f.fd) & bit(f.fd)) != 0) f.revents |= POLLOUT;
  }
  return ready;
}

// Waits until a descriptor is ready or `until` (monotonic_us(); INT64_MAX: no end), and sets all revents. The
// program's limits do not matter to it. False: it could not wait, and knows of none whether it is ready.
inline bool wait_for_any(std::vector<pollfd>* fds, int64_t until) {
  const int64_t us = std::max<int64_t>(0, until - monotonic_us());
  timespec timeout{static_cast<time_t>(us / 1'000'000), static_cast<long>(us % 1'000'000 * 1000)};
  timespec* const bound = until != INT64_MAX ? &timeout : nullptr;
  long ready = ppoll(fds->data(), fds->size(), bound, nullptr);
  if (ready < 0 && errno == EINVAL) ready = wait_by_select(fds, bound);
  if (ready >= 0) return true;
  for (pollfd& f : *fds) f.revents = 0;
  if (errno == EINTR) return true;
  usleep(10'000);  // the kernel is out of memory
  return false;
}

}  // namespace cropdl::coord
