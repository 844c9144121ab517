// Opens files whose mode forbids their owner the access that the program has: open(2) with O_CREAT applies
// the mode to later opens only, or it was changed since. LH, MAIN, START of a restart.
#pragma once

#include <cstdint>
#include <string>

namespace cropdl::files {

// open(2) with O_CLOEXEC, at any number; -1 with errno. A regular file of the effective user whose mode
// forbids the access, and did at the cut (`mode_then`), is opened in a user namespace (a mode that lost bits
// since then is respected). Where there is none, it gets the missing owner bits during the open; a process
// that is killed just then leaves them. `flags` must not make a file.
int open_despite_mode(const std::string& path, int flags, uint32_t mode_then);

}  // namespace cropdl::files
