// FS bases for threads of the program that call into the LH: each gets that of its own parked LH thread.
#pragma once

#include "base/result.h"
#include "interpose/seam/layout.h"

namespace cropdl::host {

// Starts the broker, which is the thread that starts the parked LH threads. LH, START.
Status start_tls_block_pool();

// ControlPage::lend_lower_fs. Runs on the UH thread with its UH FS base: uses no libc and no TLS. Blocks on a
// futex until `thread` has an LH FS base.
void lend_lower_fs(seam::ThreadRecord* thread);

}  // namespace cropdl::host
