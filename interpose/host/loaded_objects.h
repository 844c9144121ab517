// What the program's ld.so loads, for libraries of the LH that have to know before any code of it runs. ld.so
// calls an empty function, _dl_debug_state, whenever its list of objects has changed, for debuggers (SVR4
// link interface, <link.h>; glibc 2.36, dl_open_worker_begin and dl_main): it is made to come to the LH, by
// way of the core.
#pragma once

#include <string>

#include "interpose/launch/elf_file.h"

namespace cropdl::host {

// START, for a program that starts: ld.so is mapped there, and has not run. Only if a library wants to know.
// The program can run without, but no library of it can be taken over.
Status follow_loaded_objects(const std::string& loader, const launching::MappedElf& mapped);

// Functions that the core calls, by seam::ForCore.
void* const* functions_for_core();

// The address of a function or variable that the program, or a library which it has loaded, exports: the
// first in the order in which ld.so searches; 0: there is none, or nothing is followed. LH FS base; any
// thread of the program, or START of a restart.
uint64_t program_symbol(const char* name);

}  // namespace cropdl::host
