// Inside streams: who takes part in the order of a context, and waiting. All but wait_until_passed() with
// scheduler_mutex() held.
#pragma once

#include "gpu_state/software/device/streams.h"

namespace cropdl::device {

// From now on the legacy stream of its context waits for it, and is waited for.
void join_everyone(const std::shared_ptr<CUstream_st>& stream);
// Until it has done what it was given.
void leave(const std::shared_ptr<CUstream_st>& stream);

// Until all are passed, the context breaks or the process ends. Without the lock.
void wait_until_passed(const std::vector<MarkPointer>& marks, CUcontext context);

}  // namespace cropdl::device
