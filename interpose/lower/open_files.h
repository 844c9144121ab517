// The program's file descriptors as a checkpoint knows them. LH; the main thread, while the program is
// stopped. How they come back: reopen_files.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "restart/result.h"

namespace cropdl::lower {

// What tells a file from another one of the same name, and one state of it from a later one.
struct FileIdentity {
  uint64_t device = 0, inode = 0;
  int64_t born = -1;      // ns since 1970 (statx(2), STATX_BTIME); -1: the file system does not say
  int64_t modified = -1;  // likewise; -1: recorded by an older CropDL, and so is the rest
  int64_t size = 0;
  uint32_t mode = 0;
  std::string handle;  // name_to_handle_at(2), which tells inodes of the same number apart; "": not known
};

struct OpenFile {
  int fd = -1;
  int standard = -1;   // 0..2: it is that standard stream of the launcher
  bool ended = false;  // the standard input, a pipe, is at its end for good
  int same_as = -1;    // shares its description (offset, flags) with this lower descriptor
  std::string path;
  int flags = 0;  // F_GETFL
  int descriptor_flags = 0;
  int64_t offset = 0;
  int64_t size = -1;      // of a regular file open for writing, else -1
  FileIdentity identity;  // of a regular file
  int content = -1;       // of a regular file that some descriptor can write to: index of its FileContent
};

// Identity of what `fd` or, if fd < 0, `path` leads to.
Result<FileIdentity> identify(int fd, const std::string& path);

// All descriptors of the program; refuses by name what cannot be saved. `mpi`: an MPI is at work in the LH.
Result<std::vector<OpenFile>> list_open_files(bool mpi);

}  // namespace cropdl::lower
