// What a function that is not built does. Any thread.
#pragma once

namespace cropdl::cudart {

// Says the name once, remembers cudaErrorNotSupported as the thread's last error and returns it.
int refuse(const char* name);

}  // namespace cropdl::cudart
