// The table of descriptors, which the threads of a process usually share.
#pragma once

#include <functional>

namespace cropdl {

// Gives the calling thread a table of its own (unshare(2), CLONE_FILES), with those descriptors alone of
// which `stays` says so: it keeps nothing open that the other threads have closed. False: a sandbox forbids
// it, and nothing has changed. LH (LH FS base) and tools.
bool leave_descriptor_table(const std::function<bool(int fd)>& stays);

}  // namespace cropdl
