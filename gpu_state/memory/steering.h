// Chooses the address of the driver's next mapping: images contain addresses of managed memory, for which no
// CUDA function takes one. Works only in an executable that is linked with steering_mmap.cpp, which precedes
// the C library's mmap. Callers check the address that they get. LH, LH FS base, any thread, for itself only.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace cropdl::memory {

// While it exists, the calling thread's first mapping of at least `length` bytes whose address the kernel
// would choose is made at `address`, if that range is free. Not nested.
class Steering {
 public:
  Steering(uint64_t address, size_t length);
  ~Steering();
  Steering(const Steering&) = delete;
  Steering& operator=(const Steering&) = delete;
};

// From now on, the first mapping of at least `least` bytes without an address hint, by any thread, is made at
// `address`. This is the driver's own reservation, in which it places the variables of modules.
void steer_first_reservation(uint64_t address, size_t least);
// Whether that mapping has been made, and at that address.
bool first_reservation_is_placed();

// Makes the driver's calls of mmap reach steered_mapping(), when steering begins; null: no steering_mmap.cpp.
inline void (*at_steering)() = nullptr;

// For mmap: the mapping at the chosen address. MAP_FAILED: not steered, so mmap continues as usual.
void* steered_mapping(void* wish, size_t length, int protection, int flags, int fd, off_t offset);

}  // namespace cropdl::memory
