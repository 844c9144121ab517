// State of the process that no image can hold yet: it is named, and the checkpoint is refused. LH.
#pragma once

#include <string>

namespace cropdl::lower {

// "" or one line naming what stands in the way: more threads, children, timers, shared memory. Any thread of
// the LH; exact while the program is stopped.
std::string process_refusal();

}  // namespace cropdl::lower
