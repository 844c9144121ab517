// Reports each object that the program's ld.so loads to the LH's libraries, before its code runs. ld.so calls
// an empty function for debuggers, _dl_debug_state, when its list of objects has changed (<link.h>; glibc
// 2.36, dl_open_worker_begin and dl_main). A jump in it leads through the core to the LH.
#pragma once

#include <string>

#include "interpose/launch/elf_file.h"

namespace cropdl::host {

// Patches ld.so, which is mapped at `mapped` and has not run. Only if a library follows loaded objects. If
// this fails, the program can run, but none of its libraries can be taken over. START of a program.
Status follow_loaded_objects(const std::string& loader, const launching::MappedElf& mapped);

void* const* functions_for_core();  // the LH functions that the core calls, indexed by seam::ForCore

// The address of an exported function or variable of the program or its libraries, the first in ld.so's
// search order; 0: none, or objects are not followed. LH FS base; any thread, or START of a restart.
uint64_t program_symbol(const char* name);

// The same of the program's C library alone; 0 also without glibc. It is among the first objects of ld.so's
// list, which are never unloaded: so other threads may load and unload objects meanwhile.
uint64_t c_library_symbol(const char* name);

}  // namespace cropdl::host
