// Steers where the driver's next mapping lies: managed memory begins where the driver maps it, no function of
// CUDA's takes an address for it, and images hold addresses. An executable that is linked with
// steering_mmap.cpp stands before the C library's mmap; nothing happens in one that is not. Whoever steers
// looks where the memory came out. LH, LH FS base, any thread: one thread's steering is not another's.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace cropdl::memory {

// As long as it lives, the first mapping of at least `length` bytes that the calling thread leaves to the
// system to place is made at `address`, if nothing is there. Not nested.
class Steering {
 public:
  Steering(uint64_t address, size_t length);
  ~Steering();
  Steering(const Steering&) = delete;
  Steering& operator=(const Steering&) = delete;
};

// From now on the first mapping of at least `least` bytes that any thread leaves to the system without a wish
// is made at `address`: the addresses that a driver reserves for itself, in which it places the variables of
// modules.
void steer_first_reservation(uint64_t address, size_t least);
// Whether it has come, and lies there.
bool first_reservation_is_placed();

// Called when a Steering begins and when the driver has been loaded, if there is one (steering_mmap.cpp):
// sees to it that the driver's calls come by.
extern void (*at_steering)();

// For mmap itself: the mapping that was made there, or MAP_FAILED: it is none to be steered, go on.
void* steered_mapping(void* wish, size_t length, int protection, int flags, int fd, off_t offset);

}  // namespace cropdl::memory
