// The descriptor table, which the threads of a process usually share.
#pragma once

#include <functional>

namespace cropdl {

// Gives the calling thread its own descriptor table (unshare(2), CLONE_FILES), which keeps only the
// descriptors for which `stays` returns true. The thread then holds open no descriptor that other threads
// have closed. Returns false, with nothing changed, if a sandbox forbids it. LH (LH FS base) and tools.
bool leave_descriptor_table(const std::function<bool(int fd)>& stays);

}  // namespace cropdl
