// Functions with an optional stream exist twice: programs built with per-thread default streams call the
// `_ptsz` form (cuda.h, CUDA_API_PER_THREAD_DEFAULT_STREAM), where "no stream" is the thread's own.
#pragma once

#include <cuda.h>

namespace cropdl::driver {

inline CUstream or_own(CUstream stream) { return stream ? stream : CU_STREAM_PER_THREAD; }

}  // namespace cropdl::driver

// Defines both forms of a function that has no stream (`_ptds`), or whose last parameter is `stream`
// (`_ptsz`). CALL is its body, which uses `stream`. Inside extern "C".
#define CROPDL_CALL_WITHOUT_STREAM(NAME, PARAMETERS, CALL) \
  CUresult NAME PARAMETERS {                               \
    CUstream stream = nullptr;                             \
    return CALL;                                           \
  }                                                        \
  CUresult NAME##_ptds PARAMETERS {                        \
    CUstream stream = CU_STREAM_PER_THREAD;                \
    return CALL;                                           \
  }
#define CROPDL_CALL_WITH_STREAM(NAME, PARAMETERS, CALL) \
  CUresult NAME PARAMETERS { return CALL; }             \
  CUresult NAME##_ptsz PARAMETERS {                     \
    stream = cropdl::driver::or_own(stream);            \
    return CALL;                                        \
  }
