// measure_disk() of store.h.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/format.h"
#include "base/time.h"
#include "restart/store.h"
#include "restart/store_layout.h"

namespace cropdl::restart {

Result<double> measure_disk(const std::string& directory, uint64_t bytes, const std::stop_token& stop) {
  const std::string path = formatted("{}/{}{}{}", directory, kTemporaryPrefix, kSpeedTest, ::getpid());
  const Descriptor file = create_private_file(path, O_WRONLY);
  if (!file) return Error{errno_text(errno)};
  ::unlink(path.c_str());
  constexpr size_t kBlock = 1 << 20, kAhead = 16 * kBlock;
  std::vector<char> block(kBlock);
  uint64_t x = 1;
  for (size_t i = 0; i + sizeof x <= kBlock; i += sizeof x) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    std::memcpy(block.data() + i, &x, sizeof x);
  }
  const int64_t begin = monotonic_us();
  int failure = 0;
  for (uint64_t at = 0; at < bytes && failure == 0; at += kBlock) {
    iovec piece{block.data(), kBlock};
    failure = stop.stop_requested() ? ECANCELED : write_all(file.fd(), {&piece, 1}, at);
    if ((at + kBlock) % kAhead != 0) continue;
    // What is written reaches the disk a part behind, so that little is left to wait for after a stop.
    const uint64_t part = at + kBlock - kAhead;
    ::sync_file_range(file.fd(), off64_t(part), kAhead, SYNC_FILE_RANGE_WRITE);
    if (part >= kAhead)
      ::sync_file_range(file.fd(), off64_t(part - kAhead), kAhead,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }
  if (failure == 0 && ::fsync(file.fd()) != 0) failure = errno;
  if (failure != 0) return Error{errno_text(failure)};
  return static_cast<double>(bytes) * 1e6 / static_cast<double>(std::max<int64_t>(monotonic_us() - begin, 1));
}

}  // namespace cropdl::restart
