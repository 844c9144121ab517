// Internals of streams: the streams that the legacy stream synchronizes with, and waiting. All except
// wait_until_passed() with scheduler_mutex() held.
#pragma once

#include "gpu_state/software/device/streams.h"

namespace cropdl::device {

// From now on, the context's legacy stream and this stream wait for each other.
void join_everyone(const std::shared_ptr<CUstream_st>& stream);
// Ends that once the stream has finished its tasks.
void leave(const std::shared_ptr<CUstream_st>& stream);

// Waits until all marks are passed, the context breaks or the process ends. Without the lock.
void wait_until_passed(const std::vector<MarkPointer>& marks, CUcontext context);

}  // namespace cropdl::device
