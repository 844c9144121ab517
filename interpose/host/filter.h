// The seccomp filter that sends the program's placement, signal, descriptor and process calls to the core.
// Threads, children and exec keep it. It allows every call from outside the window. LH, START.
#pragma once

#include "base/result.h"

namespace cropdl::host {

// `restarted`: process ids are virtual, so their calls are trapped too. `watch_input`: reads consume the
// standard input's bytes. The core may be an older image's: the filter traps only calls that the core's state
// says it handles. Sets no_new_privs, which an unprivileged filter requires.
Status install_filter(bool restarted, bool watch_input);

}  // namespace cropdl::host
