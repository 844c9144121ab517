// FS bases for threads of the program that call into the lower half: each gets that of a parked LH thread of
// its own.
#pragma once

#include "base/result.h"
#include "interpose/seam/layout.h"

namespace cropdl::host {

// Starts the thread that makes those threads. LH, START.
Status start_tls_block_pool();

// ControlPage::lend_lower_fs. Runs on the UH thread with its UH FS base: uses no libc, no TLS; waits on a
// futex.
void lend_lower_fs(seam::ThreadRecord* thread);

}  // namespace cropdl::host
