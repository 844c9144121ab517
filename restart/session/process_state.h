// Process state that no image can hold yet and that refuses a checkpoint, by name. LH.
#pragma once

#include <string>

namespace cropdl::session {

// Returns why the checkpoint is refused (one line), or "". Any thread of the LH; exact while all is stopped.
std::string process_refusal();

// Records the main thread's seccomp filters: CropDL's and its starter's. A later one is the program's own and
// may forbid what a stop does. Main thread, after install_filter().
void remember_filters();

}  // namespace cropdl::session
