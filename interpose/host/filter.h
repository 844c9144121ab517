// The seccomp filter that steers the program's placement, signal, descriptor and process calls into the core.
// LH, START. Inherited by every thread and child made afterwards and kept over exec; it never touches an
// instruction pointer outside the window.
#pragma once

#include "base/result.h"

namespace cropdl::host {

// `restarted`: ids are virtual too. `watch_input`: the standard input is one whose bytes are gone when they
// are read. Sends the core, which may be an older image's, what its state says that it takes. Sets
// no_new_privs, as an unprivileged filter must.
Status install_filter(bool restarted, bool watch_input);

}  // namespace cropdl::host
