// What the kernel keeps of a process besides memory, files and attributes, as in the image. LH, MAIN, START.
#pragma once

#include <string>

#include "base/result.h"
#include "restart/session/metadata.h"

namespace cropdl::session {

// Lets the program's stack grow as far as before. "" or why it cannot.
std::string raise_stack_limit(const Metadata& m);

// umask, name, ids, clocks, membarriers, the main thread's registrations with the kernel, pending signals,
// and a trial of making all threads. After the memory is loaded: it works on the program's persistent state.
// All signals are blocked afterwards, until the frame of each thread brings its mask.
Status restore_process(const Metadata& m);

}  // namespace cropdl::session
