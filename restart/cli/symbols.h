// Names of functions in programs and libraries, by libelf. Tools; one thread.
#pragma once

#include <cstdint>
#include <string>

namespace cropdl::cli {

// A file as it was when it was mapped.
struct MappedAs {
  std::string path;
  uint64_t size = 0;
  int64_t modified = 0;  // ns since 1970
};

// The function that has the byte at that offset of the file, demangled, and how far behind its begin:
// "train_step(Model&)+0x1c". "" if the file has no name for it, is another one now, or is not there.
std::string symbol_at(const MappedAs& file, uint64_t offset);

}  // namespace cropdl::cli
