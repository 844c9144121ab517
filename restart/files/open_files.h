// The program's file descriptors as a checkpoint knows them. LH; the main thread, while the program is
// stopped. How they come back: reopen_files.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "restart/files/file_identity.h"

namespace cropdl::files {

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
void to_json(nlohmann::json& j, const OpenFile& f);
void from_json(const nlohmann::json& j, OpenFile& f);  // throws json::exception

// "" or the refusal for the sake of a descriptor on which calls may end with EINTR when a stop interrupts
// them (man 7 signal: sockets with a time limit; io_uring_enter): found out before the program is stopped.
// Any thread.
std::string interrupted_by_a_stop();

// All descriptors of the program; refuses by name what cannot be saved. `libraries`: some are at work in the
// LH.
Result<std::vector<OpenFile>> list_open_files(bool libraries);

}  // namespace cropdl::files
