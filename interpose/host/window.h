// The window's fixed parts in this process: control page, core, state, heap. LH, START (main thread, before
// any code of the program runs).
#pragma once

#include <string>

#include "base/result.h"
#include "interpose/launch/boot.h"
#include "interpose/seam/state.h"

namespace cropdl::host {

// Refuses when anything lies in the window already, or when the machine cannot switch FS bases in user mode.
Status check_window();

// Maps the control page and fills in what belongs to this run. `installation`: directory of shims and core.
Status map_control_page(const std::string& installation);

// Which files ld.so gets in the place of the program's libraries, as far as `boot` says it. Again at a
// restart, once the image has said how the program was started.
void choose_stand_ins(const launching::Boot& boot);

// For a program that starts: maps the core, the state and the heap, and fills in the state.
Status map_fresh_state(const std::string& installation, const std::string& exe);

// Installs the kernel's signal handlers of the core and of the program, as PersistentState::actions has them,
// and the main thread's signal stack. `last_version`: SIGTERM asks for one where the program leaves it at its
// default, if the core knows how.
Status install_handlers(bool last_version);

// The address of symbol `name` in the dynamic symbol table of a loaded vDSO-like image, or 0.
uint64_t vdso_symbol(uint64_t elf_header, const char* name);

}  // namespace cropdl::host
