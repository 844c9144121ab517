// State of the process that no image can hold yet: it is named, and the checkpoint is refused. LH.
#pragma once

#include <string>

namespace cropdl::session {

// "" or one line naming what stands in the way: more threads, children, timers, shared memory. Any thread of
// the LH; exact while the program is stopped.
std::string process_refusal();

// The filters of system calls that the main thread has are CropDL's and who started it's: one that comes is
// the program's own, and a stop might be what it forbids. Main thread, behind install_filter().
void remember_filters();

}  // namespace cropdl::session
