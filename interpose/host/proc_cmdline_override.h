// What the kernel shows of the process in /proc/PID/cmdline and auxv: the program's, which lies in its stack,
// and not the lower half's. The environment stays this run's: launchers and batch systems find their
// processes by it. LH, main thread, START.
#pragma once

namespace cropdl::host {

// Tells the kernel what PersistentState::view says. Where it does not take that (a kernel without
// CONFIG_CHECKPOINT_RESTORE) those files show the lower half.
void show_program();

}  // namespace cropdl::host
