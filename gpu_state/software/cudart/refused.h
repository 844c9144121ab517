// The behaviour of a function that is not built. Any thread.
#pragma once

namespace cropdl::cudart {

// Prints the name once, sets the thread's last error to cudaErrorNotSupported, and returns it.
int refuse(const char* name);

}  // namespace cropdl::cudart
