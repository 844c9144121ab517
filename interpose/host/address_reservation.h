// Where this process's own memory lies: its stack may be too small, and its libraries may be where the
// program's memory must go. LH, START.
#pragma once

#include "base/result.h"
#include "interpose/host/process.h"
#include "restart/store.h"

namespace cropdl::host {

// Calls `run`, which does not return, on the process's stack or, where `ulimit -s` makes that too small for
// us, on one of our own; threads get enough, too. The program's stack is another matter (initial_stack.h).
[[noreturn]] void with_enough_stack(void (*run)(int, char**), int argc, char** argv);

// Before a restart touches anything: keeps the version's addresses outside the window free. If this process
// lies on one of them, because of how its addresses were drawn, it starts over by exec and does not return;
// the error says that no layout had them free.
Status settle_addresses(Process& p, const restart::Version& version);

// In a process that has started over: nothing of that is left for the program to see.
void settled_in(const launching::Boot& boot);

}  // namespace cropdl::host
