#include "gpu_state/memory/steering.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace cropdl::memory {
namespace {
struct Wanted {
  uint64_t address;  // 0: no steering
  size_t length;
};
thread_local constinit Wanted wanted{};
// The number of threads that steer. While it is 0, mmap reads no thread-local state.
std::atomic<int> steering_threads{0};
// The awaited reservation is the first mapping of at least this size; 0: none is awaited.
std::atomic<size_t> reservation_least{0};
uint64_t reservation_address = 0;
std::atomic<bool> reservation_placed{false};

// MAP_FAILED: the range is not free.
void* map_at(uint64_t address, size_t length, int protection, int flags, int fd, off_t offset) {
  const int before = errno;
  // A raw system call: mmap itself calls this function.
  const long got = syscall(SYS_mmap, address, length, protection, flags | MAP_FIXED_NOREPLACE, fd, offset);
  if (got == static_cast<long>(address)) return reinterpret_cast<void*>(got);
  if (got != -1) munmap(reinterpret_cast<void*>(got), length);  // before Linux 4.17 the flag is only a hint
  errno = before;
  return MAP_FAILED;
}
}  // namespace

Steering::Steering(uint64_t address, size_t length) {
  if (at_steering) at_steering();
  ++steering_threads;
  wanted = {address, length};
}

Steering::~Steering() {
  wanted = {};
  --steering_threads;
}

void steer_first_reservation(uint64_t address, size_t least) {
  if (at_steering) at_steering();
  reservation_address = address;
  reservation_placed = false;
  reservation_least = least;
}

bool first_reservation_is_placed() { return reservation_placed; }

void* steered_mapping(void* wish, size_t length, int protection, int flags, int fd, off_t offset) {
  if ((flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0) return MAP_FAILED;
  size_t least = reservation_least.load(std::memory_order_relaxed);
  if (least != 0 && length >= least && !wish && reservation_least.compare_exchange_strong(least, 0)) {
    void* got = map_at(reservation_address, length, protection, flags, fd, offset);
    reservation_placed = got != MAP_FAILED;
    return got;
  }
  if (steering_threads.load(std::memory_order_relaxed) == 0 || wanted.address == 0 || length < wanted.length)
    return MAP_FAILED;
  const uint64_t address = wanted.address;
  wanted = {};
  return map_at(address, length, protection, flags, fd, offset);
}

}  // namespace cropdl::memory
