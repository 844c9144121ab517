// A patched function of the program (base/patched_code.h): it jumps to a shim's function, which the first
// call looks up. The LH makes the record in the persistent heap; the core uses it. UH FS base; in images.
#pragma once

#include <cstdint>

namespace cropdl::seam {

// A shim's file, and the program's own dlopen and dlsym that find its functions. All in the UH's memory.
struct LateLibrary {
  void* (*open)(const char* path, int flags);          // dlopen
  void* (*find)(void* library, const char* function);  // dlsym
  const char* path;
  const char* cannot;  // message for users if the shim cannot be opened
};

struct LateCall {
  void* volatile target;  // destination of calls; at first cropdl_core_late_call, which looks it up
  const char* name;
  const LateLibrary* library;
  // Message for users if the library has no such function. Then the first call ends the program; or, if the
  // target is cropdl_core_no_call, calls return `result` and the message is printed once.
  const char* line;
  int64_t result;
};

}  // namespace cropdl::seam
