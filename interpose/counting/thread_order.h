// A full barrier on all threads, so that frequent paths need none: stores before it are visible after it. LH.
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cropdl::counting {

inline void order_all_threads() {
  // If not registered, or the kernel lacks it: the slow form orders all threads of the machine.
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

}  // namespace cropdl::counting
