// Sets up the window's fixed parts: control page, core, state, heap. LH, START (main thread, no program yet).
#pragma once

#include <string>

#include "base/result.h"
#include "interpose/launch/boot.h"
#include "interpose/seam/state.h"

namespace cropdl::host {

// Refuses if the window already contains a mapping, or if the machine cannot switch FS bases in user mode.
Status check_window();

// Maps the control page and fills in this run's fields. `installation`: directory of the shims and the core.
Status map_control_page(const std::string& installation);

// Chooses the files that ld.so gets instead of the program's libraries, by `boot`. A restart calls it again
// once it has read from the image how the program was started.
void choose_stand_ins(const launching::Boot& boot);

// For a starting program: maps the core, the state and the heap, and initializes the state.
Status map_fresh_state(const std::string& installation, const std::string& exe);

// Installs the core's signal handlers, the program's by PersistentState::actions, and the main thread's
// signal stack. `last_version`: SIGTERM at its default requests a last version, if the core supports it.
Status install_handlers(bool last_version);

}  // namespace cropdl::host
