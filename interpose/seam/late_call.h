// A function of the program that has been taken over (base/patched_code.h): its code jumps to a function of a
// shim that the first call finds. Made by the LH in the persistent heap, used by the core on any UH thread,
// UH FS base; saved in images.
#pragma once

#include <cstdint>

namespace cropdl::seam {

// A shim, and the program's own functions by which it is found. All of it is the UH's memory.
struct LateLibrary {
  void* (*open)(const char* path, int flags);          // dlopen
  void* (*find)(void* library, const char* function);  // dlsym
  const char* path;
  const char* cannot;  // a line for people
};

struct LateCall {
  void* volatile target;  // where calls go; first cropdl_core_late_call, which finds it
  const char* name;
  const LateLibrary* library;
  // The library has no such function: a line for people. The first call ends the program; or, if the target
  // is cropdl_core_no_call, calls return this, and the line is said once.
  const char* line;
  int64_t result;
};

}  // namespace cropdl::seam
