// Threads for whatever must go on beside a stream: as many as are busy at once, kept for a while when
// idle. Any thread.
#pragma once

#include <functional>

namespace cropdl::device {

// False: the system gives no thread for it, and it is not done.
bool in_background(std::function<void()> function);

}  // namespace cropdl::device
