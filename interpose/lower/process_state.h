// State of the process that no image can hold yet: it is named, and the checkpoint is refused. LH.
#pragma once

#include <string>

namespace cropdl::lower {

// "" or one line naming what stands in the way: more threads, children, timers, shared memory. Any thread of
// the LH. While the program runs, what can be told without disturbing it; while it is stopped, everything.
std::string process_refusal(bool stopped);

}  // namespace cropdl::lower
