// A full barrier on every thread of the process, so that what they do often needs none: what a thread stored
// before it is seen after it, and what was stored before it is seen by whatever a thread does after it. LH.
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cropdl::counting {

inline void order_all_threads() {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) {
    // Not registered, or a kernel without it: the slow form orders all threads of the machine.
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
  }
}

}  // namespace cropdl::counting
