// Makes /proc/PID/cmdline and auxv show the program's arguments and auxiliary vector, from its stack, and
// stat and maps where that stack begins, instead of the lower half's. /proc/PID/environ stays this run's:
// launchers and batch systems find their processes by it. LH, main thread, START.
#pragma once

namespace cropdl::host {

// Sets the kernel's bounds from PersistentState::view. On a kernel without CONFIG_CHECKPOINT_RESTORE, which
// refuses this, the files keep showing the lower half.
void show_program();

}  // namespace cropdl::host
