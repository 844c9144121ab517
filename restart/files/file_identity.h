// Which file it is, and in which state. LH; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"

namespace cropdl::files {

// What tells a file from another one of the same name, and one state of it from a later one (statx(2)).
struct FileIdentity {
  uint64_t device = 0, inode = 0;
  int64_t born = -1;  // ns since 1970; -1: the file system does not say
  int64_t modified = -1;
  int64_t size = 0;
  uint32_t mode = 0;
  std::string handle;  // name_to_handle_at(2), which tells inodes of the same number apart; "": not known
};

// Of what `fd` or, if fd < 0, `path` leads to.
Result<FileIdentity> identify_file(int fd, const std::string& path);

// Whether it is the saved file, whatever has been written to it, and not one that took its place.
bool is_same_file(const FileIdentity& saved, const FileIdentity& now);

// Size and time of the last change: nobody has written to it, as far as can be seen without reading it.
bool looks_the_same(const FileIdentity& saved, const FileIdentity& now);

// Whether it has the name under which NFS or FUSE keeps a file that was deleted while a program has it open:
// it goes with that program.
bool has_name_of_deleted(const std::string& path);

// A service of the machine keeps it for all programs to read, and changes it at any time: tables of the names
// of users and groups (sssd, nscd).
bool is_a_services_table(const std::string& path);

nlohmann::json to_json(const FileIdentity& id);
FileIdentity file_identity_from(const nlohmann::json& j);  // throws json::exception

}  // namespace cropdl::files
