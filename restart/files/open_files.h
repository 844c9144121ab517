// The program's descriptors, as a checkpoint records them; reopen_files.h restores them. LH, MAIN, stopped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "restart/files/file_identity.h"

namespace cropdl::files {

struct OpenFile {
  int fd = -1;
  int standard = -1;   // 0..2: that standard stream of the launcher
  bool ended = false;  // the standard input, a pipe or socket, is empty and has no writer
  int same_as = -1;    // lower descriptor that shares its description (offset, flags)
  std::string path;
  int flags = 0;  // F_GETFL
  int descriptor_flags = 0;
  int64_t offset = 0;
  int64_t size = -1;      // of a regular file open for writing, else -1
  FileIdentity identity;  // of a regular file or a directory
  int content = -1;       // index of its FileContent, if some descriptor can write to the regular file
};
template <class Visit>
void list_members(OpenFile& f, Visit&& member) {  // base/json.h
  member("fd", f.fd);
  member("standard", f.standard);
  member("ended", f.ended);
  member("same_as", f.same_as);
  member("path", f.path);
  member("flags", f.flags);
  member("descriptor_flags", f.descriptor_flags);
  member("offset", f.offset);
  member("size", f.size);
  member("identity", f.identity);
  member("content", f.content);
}

// What a version keeps of a file that the program has open for writing (file_contents.h), besides the bytes.
struct FileContent {  // one per inode
  std::string path;
  FileIdentity identity;
  std::string stored;              // name in the version's folder (restart/content.h); "": only appended to
  uint64_t checksum = 0;           // of the whole content, or the mark
  FileAttributes attributes = {};  // if it is stored
};
template <class Visit>
void list_members(FileContent& c, Visit&& member) {
  member("path", c.path);
  member("identity", c.identity);
  member("stored", c.stored);
  member.hex("checksum", c.checksum);
  member.since("attributes", c.attributes);
}

// Before a stop, any thread: "" or a refusal because of a descriptor on which it may end calls with EINTR
// (man 7 signal: sockets with a time limit; io_uring_enter).
std::string interrupted_by_a_stop();

// Lists the program's descriptors; refuses by name what cannot be saved. `libraries`: some run in the LH.
Result<std::vector<OpenFile>> list_open_files(bool libraries);

}  // namespace cropdl::files
