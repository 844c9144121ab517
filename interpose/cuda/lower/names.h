// Ids of streams and contexts (cudaStreamGetId, cuCtxGetId), which the program may keep. An object's id stays
// the same across restarts and is never reused, although libraries count anew in every run. LH, any thread.
#pragma once

#include <cstdint>

namespace cropdl::cuda {

// The id that the program gets for an object. `word`: virtual handle; `real`: the library's id in this run.
uint64_t number_of(uint64_t word, uint64_t real);
// The same for a device's default streams, which have no handle. `which`: 0 the legacy, 1 the thread's own.
uint64_t number_of_default_stream(int device, int which, uint64_t real);
// START, before any id is asked for.
void begin_numbers();

}  // namespace cropdl::cuda
