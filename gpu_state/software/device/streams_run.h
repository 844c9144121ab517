// Runs all kinds of work on streams' threads. (submit() and waiting: work.h.)
#pragma once

#include <string>
#include <string_view>

#include "gpu_state/software/device/work.h"

namespace cropdl::device {

// Runs one Work on the calling thread, which is a stream's or a graph's, with the slow-down and the injected
// errors of its kind.
CUresult run_work(const Work& work, CUcontext context);
std::string_view kind_of(const Work& work);
std::string name_of(const Work& work);  // "launch", "ncclAllReduce"

// Counts an operation of that kind and returns the error that a tester injects into it.
// stays_when_injected(): whether it is an error that a device finds while work runs; that one breaks the
// context when the work runs, others are returned by the call.
CUresult injected_at_call(std::string_view kind);
bool stays_when_injected(CUresult error);

// CUDA_ERROR_NOT_READY, CUDA_SUCCESS, or the sticky error.
CUresult query_stream(CUstream handle);

}  // namespace cropdl::device
