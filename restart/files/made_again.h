// A file that is gone and made again has a new identity, which the version keeps beside the file's copy
// (rank-K.files/N.again): a later restart from it knows the file. LH, START of a restart.
#pragma once

#include <string>

#include "base/folder.h"
#include "base/result.h"
#include "restart/files/open_files.h"

namespace cropdl::files {

// Whether `now` is the checkpoint's file, or one that a restart from this version made or took for it.
bool is_programs_file(const FileContent& content, const FileIdentity& now, const Folder& version);

// Takes a file with the saved contents for the program's: another rank has made it, or the user a copy.
Status take_for_programs(const FileContent& content, const FileIdentity& now, const Folder& version);

// Makes the file from its `copy`. It gets its name when it is complete. "": there is a file of that name by
// now; else what to say of it, and `its` is the new file.
Result<std::string> make_again(const FileContent& content, int copy, const Folder& version,
                               FileIdentity* its);

// "", or why the file keeps today's time. Not fatal: who may write to another's file may not set its time.
std::string set_modified(int fd, int64_t ns);

}  // namespace cropdl::files
