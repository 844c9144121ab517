// Threads for work outside of streams: as many as tasks run at the same time, kept for a while when idle. Any
// thread.
#pragma once

#include <functional>

namespace cropdl::device {

// False: no thread could be created, and `function` does not run.
bool in_background(std::function<void()> function);

}  // namespace cropdl::device
