// What the kernel keeps of a process besides memory, files and attributes: what of it refuses a checkpoint,
// by name, since no image can hold it yet; and how a restart makes the rest as in the image. LH.
#pragma once

#include <string>

#include "base/result.h"
#include "restart/session/metadata.h"

namespace cropdl::session {

// Returns why the checkpoint is refused (one line), or "". Any thread of the LH; exact while all is stopped.
std::string process_refusal();

// Records the main thread's seccomp filters: CropDL's and its starter's. A later one is the program's own and
// may forbid what a stop does. Main thread, after install_filter().
void remember_filters();

// --- MAIN, START of a restart.

// Lets the program's stack grow as far as before. "" or why it cannot.
std::string raise_stack_limit(const Metadata& m);

// umask, name, ids, clocks, membarriers, the main thread's registrations with the kernel, pending signals,
// and a trial of making all threads. After the memory is loaded: it works on the program's persistent state.
// All signals are blocked afterwards, until the frame of each thread brings its mask.
Status restore_process(const Metadata& m);

}  // namespace cropdl::session
