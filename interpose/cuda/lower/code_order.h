// Keeps the order in which the program's code is loaded on the devices. The driver places variables as their
// code arrives, so the same order in another process gives the same addresses. The first use of registered
// code loads it, and is recorded as a recipe; modules and libraries are recorded by the calls that load them.
// Unloaded code is loaded and unloaded again at its place while any code exists that was loaded in between
// (docs/gpu.md, "Code and its variables"). LH, LH FS base; a thread of the program, MAIN or START.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <mutex>

namespace cropdl::cuda {

// While it exists, no other thread loads code, and every device in use has all earlier code. Do not nest.
class CodeOrder {
 public:
  CodeOrder();
  ~CodeOrder();
  CodeOrder(const CodeOrder&) = delete;

 private:
  const std::unique_lock<std::mutex> lock_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // loading code does not disturb captures
};

// Loads a library on all devices now, instead of at its first use there. START, or with CodeOrder held.
// Returns 0, or an error on which a restart fails; errors of the code itself (it is for other devices, for
// example) count as 0. `ended`: when the library was unloaded, in the order of all objects; devices that
// began later never had it and are skipped.
int64_t bring_library(CUlibrary real, uint64_t ended = ~uint64_t{0});

void device_code_is_gone(int device);  // the device was reset; without CodeOrder
void registered_code_went();           // a library with registered code was closed; with CodeOrder
// When the first piece of the registered code was loaded on a device, in the order of all objects; 0: never.
uint64_t first_use_of(uint64_t code);

// START: between these two calls code is loaded only on the devices that the image names.
void begin_code_again();
void end_code_again();

}  // namespace cropdl::cuda
