// The program's directories, the current one and open ones: whether a restart finds the same, and the place
// in an open one's list of names. LH, START of a restart.
#pragma once

#include <optional>
#include <string>

#include "restart/files/file_contents.h"

namespace cropdl::files {

// Whether a file system is mounted at the directory; "": the current one. Linux before 5.8 does not tell.
std::optional<bool> is_mount_root(const std::string& path);

// A directory that another one of its name replaces is refused if the program had read a part of its list, or
// if a file system is mounted on the current one where none was (`was_mount_root`). Otherwise the program
// goes on in the other one: directory_left_alone() says so, and FilesPolicy::kFail refuses.
FileVerdict check_current_directory(const std::string& path, const FileIdentity& then,
                                    std::optional<bool> was_mount_root, FilesPolicy policy);
FileVerdict check_open_directory(const OpenFile& f, const FileIdentity& now, FilesPolicy policy);

// "" or a line about another directory of that name. `fd`: -1 for the one of that path.
std::string directory_left_alone(int fd, const std::string& path, const FileIdentity& then);

}  // namespace cropdl::files
