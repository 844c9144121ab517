// Function names in programs and libraries, by libelf. Tools; one thread.
#pragma once

#include <cstdint>
#include <string>

namespace cropdl::cli {

// A file's identity when it was mapped.
struct MappedAs {
  std::string path;
  uint64_t size = 0;
  int64_t modified = 0;  // ns since 1970
};

// Returns the demangled name of the function that makes the call before that offset of the file, and the
// offset's distance from the function's begin, as debuggers show a return address: "train_step(Model&)+0x1c".
// (The offset itself may be the next function's: the call may be the last instruction of its own.) "" if the
// file has no name for it, has changed, or is missing.
std::string symbol_of_return(const MappedAs& file, uint64_t offset);

}  // namespace cropdl::cli
