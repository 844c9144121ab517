// The saved process as its image describes it, in metadata and in the core's state in memory. Reads only the
// image, trusts it no more than `cropdl verify` does: a fault is one line of error. Tools; one thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "restart/cli/memory_use.h"
#include "restart/image.h"

namespace cropdl::cli {

struct SavedFile {
  int fd = -1;
  int standard = -1;  // 0..2: this standard stream of the launcher
  std::string path;
  int flags = 0;  // man 2 open
  int64_t offset = 0;
  int64_t size = -1;     // -1: not a regular file open for writing
  int64_t content = -1;  // number of its contents, if they are saved with the version; else -1
  static constexpr const char* kMembers[] = {"fd", "standard", "path", "flags", "offset", "size", "content"};
};

// Where a call was made.
struct CallSite {
  std::string path;      // of the file that is mapped there; "": not known
  uint64_t size = 0;     // of that file when it was mapped
  int64_t modified = 0;  // the same, ns since 1970
  uint64_t offset = 0;   // in that file, of the instruction after the call
};

// A collective of an iteration of the program's main loop.
struct SavedCall {
  std::string function;       // "MPI_Allreduce"; "": the library names none
  uint64_t communicator = 0;  // numbered from 1 in order of appearance; 0: no other member, or unknown
  CallSite site;
  CallSite outer;  // where the function that made it was called
};

struct SavedProcess {
  std::string program, directory;
  std::vector<std::string> arguments;
  std::vector<std::string> threads;  // names; the main thread first
  std::vector<SavedFile> files;
  uint64_t contents = 0;             // bytes of the files beside the image
  std::vector<SavedCall> iteration;  // empty: not known
  uint64_t found_after = 0;          // iterations seen when it was found; 0: unknown
  AddressFacts addresses;
};

Result<SavedProcess> saved_process(const restart::ImageReader& image);

// Returns how many bytes of the image's memory are in files elsewhere: by reference, or data sets not copied.
// Throws what reading JSON throws.
uint64_t bytes_elsewhere(const restart::ImageReader& image, const nlohmann::json& metadata);

// Returns the demangled name of the function that makes the call, and the distance of the return address from
// the function's begin, as debuggers show it: "train_step(Model&)+0x1c". (The return address itself may be
// the next function's: the call may be the last instruction of its own.) "" if the file has no name for it,
// has changed, or is missing. In symbols.cpp.
std::string symbol_of_return(const CallSite& site);

}  // namespace cropdl::cli
