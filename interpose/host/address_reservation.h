// This process's own memory: a stack that is large enough, no mapping at addresses of the program. LH, START.
#pragma once

#include "base/result.h"
#include "interpose/host/process.h"
#include "restart/memory/restore_memory.h"
#include "restart/store.h"

namespace cropdl::host {

// Calls `run`, which does not return. Uses the process's stack, or a new one if `ulimit -s` makes it too
// small for the LH. Raises threads' default size, too. initial_stack.h builds the program's stack.
[[noreturn]] void with_enough_stack(void (*run)(int, char**), int argc, char** argv);

// Reserves the version's addresses outside the window, before a restart touches anything. If ASLR put a
// mapping of this process on one, starts over by exec and does not return. An error: no layout had them free.
Status settle_addresses(const Process& p, const restart::Version& version,
                        host_memory::ReservedAddresses& reserved);

// After such an exec: restores the personality, so that the program sees no trace of the exec.
void settled_in(const launching::Boot& boot);

}  // namespace cropdl::host
