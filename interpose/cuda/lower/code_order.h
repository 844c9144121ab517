// In which order the program's code came to the devices, for the driver places a device's variables as they
// come: what is done in the same order in another process comes out at the same addresses. Registered code
// comes when it is first used, which is a recipe here; modules and libraries when they are loaded. Code that
// was unloaded is loaded again in its place, and unloaded, as long as anything that came in its time is there
// (docs/gpu.md, "Code and its variables"). LH, LH FS base; a thread of the program, MAIN or START.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <mutex>

namespace cropdl::cuda {

// As long as it lives, no other thread brings code to the devices, and all that came before is on all that
// are used by now. Not for calls within another one's.
class CodeOrder {
 public:
  CodeOrder();
  ~CodeOrder();
  CodeOrder(const CodeOrder&) = delete;

 private:
  const std::unique_lock<std::mutex> lock_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // what comes does not matter to captures
};

// After a library was loaded: it is on all devices at once, not when it is first wanted there. START or with
// CodeOrder. 0, or an error that is not the code's own (such as one that is for other devices): a restart
// cannot go on with that. `ended`: when it was unloaded, in the order of all objects; devices that began
// later have never had it.
int64_t bring_library(CUlibrary real, uint64_t ended = ~uint64_t{0});

void device_code_is_gone(int device);  // for it was reset. No CodeOrder
void registered_code_went();           // of a library that is closed. With CodeOrder
// When the first of the registered code came to a device, in the order of all objects; 0: none of it has.
uint64_t first_use_of(uint64_t code);

// START: between the two code comes to the devices that the image says, and to no other.
void begin_code_again();
void end_code_again();

}  // namespace cropdl::cuda
