// Functions whose stream may be left out exist twice: `_ptsz` is what programs built with per-thread default
// streams call (cuda.h, CUDA_API_PER_THREAD_DEFAULT_STREAM), and there "no stream" is the thread's own.
#pragma once

#include <cuda.h>

namespace cropdl::driver {

inline CUstream or_own(CUstream stream) { return stream ? stream : CU_STREAM_PER_THREAD; }

}  // namespace cropdl::driver
