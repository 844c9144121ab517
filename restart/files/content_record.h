// What a version keeps of a file that the program has open for writing (file_contents.h), besides the
// content.
#pragma once

#include <cstdint>
#include <string>

#include "restart/files/file_attributes.h"
#include "restart/files/open_files.h"

namespace cropdl::files {

struct FileContent {  // one per inode
  std::string path;
  FileIdentity identity;
  std::string stored;              // name in the version's folder (restart/content.h); "": only appended to
  uint64_t checksum = 0;           // of the whole content, or the mark
  FileAttributes attributes = {};  // if it is stored
};
template <class Visit>
void list_members(FileContent& c, Visit&& member) {  // base/json.h
  member("path", c.path);
  member("identity", c.identity);
  member("stored", c.stored);
  member.hex("checksum", c.checksum);
  member.since("attributes", c.attributes);
}

}  // namespace cropdl::files
