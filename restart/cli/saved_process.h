// What an image tells of its process: from its metadata, and from the core's state in its memory. Reads the
// image alone, and trusts it no more than `cropdl verify` does: what is wrong in it is one line. Tools; one
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "restart/cli/memory_use.h"
#include "restart/cli/symbols.h"
#include "restart/image.h"

namespace cropdl::cli {

struct SavedFile {
  int fd = -1;
  int standard = -1;  // 0..2: it is that standard stream of the launcher
  std::string path;
  int flags = 0;  // man 2 open
  int64_t offset = 0;
  int64_t size = -1;   // -1: not a regular file that is open for writing
  bool saved = false;  // its contents are with the version
};

// A collective of an iteration of the program's main loop.
struct SavedCall {
  std::string function;       // "MPI_Allreduce"; "": of a library that names none
  uint64_t communicator = 0;  // numbered from 1 on as they come; 0: it has no other member, or none is known
  MappedAs file;              // that made it; path "": not known
  uint64_t offset = 0;        // in that file, of the instruction behind the call
};

struct SavedProcess {
  std::string program, name, directory;
  std::vector<std::string> arguments;
  std::vector<std::string> threads;  // names; the main thread first
  std::vector<SavedFile> files;
  uint64_t contents = 0;             // bytes of files that lie beside the image
  std::vector<SavedCall> iteration;  // empty: not known
  AddressFacts addresses;
};

Result<SavedProcess> saved_process(const restart::ImageReader& image);

// Bytes of the image's memory that files elsewhere hold: by reference, or data sets that stay in them.
Result<uint64_t> bytes_elsewhere(const restart::ImageReader& image);

}  // namespace cropdl::cli
