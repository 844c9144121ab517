// Files whose mode does not allow their owner what the program does with them: made so (open(2) with O_CREAT
// looks at the mode only later), or changed while they were open. LH, START of a restart, MAIN.
#pragma once

#include <string>

#include "base/file.h"

namespace cropdl::files {

// open(2) with O_CLOEXEC, at any number; -1 with errno. If the mode of a regular file of the effective user
// forbids it, the owner gets the missing bits for the moment of the open. `flags` must not make a file.
int open_despite_mode(const std::string& path, int flags);

}  // namespace cropdl::files
