// The program's file descriptors: what can be saved of them, and how they come back. LH; the main thread,
// while the program is stopped (save) or before it runs (restore).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "restart/result.h"

namespace cropdl::lower {

struct OpenFile {
  int fd = -1;
  int standard = -1;  // 0..2: it is that standard stream of the launcher
  int same_as = -1;   // shares its description (offset, flags) with this lower descriptor
  std::string path;
  int flags = 0;  // F_GETFL
  int descriptor_flags = 0;
  int64_t offset = 0;
  int64_t size = -1;  // of a regular file open for writing, else -1
};

// Remembers what descriptors 0 to 2 are, before the program can change them. START.
void remember_standard_streams();

// Descriptors that this process was started with and that are the program's: the standard streams, and files
// that a shell opened for it. Pipes and sockets beyond those are between us and the launcher. START, before
// we open any.
std::vector<int> inherited_files();

// All descriptors of the program; refuses by name what cannot be saved.
Result<std::vector<OpenFile>> list_open_files();

// Whether all are there to be opened again; changes nothing.
Status check_files(const std::vector<OpenFile>& files);

// Opens them again at their numbers and offsets; those open for writing are cut back to their size at the
// cut.
Status reopen_files(const std::vector<OpenFile>& files);

}  // namespace cropdl::lower
