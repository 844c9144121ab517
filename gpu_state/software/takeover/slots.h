// Redirects calls of a static runtime to the functions of the same names in the software device's
// libcudart.so.13, which the first call loads. So a process that never calls CUDA loads nothing, and the
// library's constructors run before any call enters it. Any thread.
#pragma once

#include <string>

namespace cropdl::takeover {

// The destination of a patched function (base/patched_code.h).
struct Slot {
  void* target = nullptr;
  const char* name = nullptr;
};

// The full path of the libcudart.so.13 in this library's folder.
void set_library(std::string path);
const std::string& library();

// One slot per name, for the life of the process.
Slot* slot_for(const std::string& name);

}  // namespace cropdl::takeover
