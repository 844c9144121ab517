// Where calls of a static runtime go: to the function of the same name in the software device's
// libcudart.so.13, which is loaded by the first call. So a process that never calls CUDA loads nothing, and
// the library's own constructors have run before anybody is in it. Any thread.
#pragma once

#include <string>

namespace cropdl::takeover {

// Where a patched function goes (base/patched_code.h).
struct Slot {
  void* target = nullptr;
  const char* name = nullptr;
};

// The full name of the libcudart.so.13 that lies beside this library.
void set_library(std::string path);
const std::string& library();

// One per name for the life of the process.
Slot* slot_for(const std::string& name);

}  // namespace cropdl::takeover
