// Pools of the program: a pool in the driver, and the arena's side of it, which provides the memory. LH, LH
// FS base, a thread of the program.
#pragma once

#include "interpose/cuda/lower/memory.h"

namespace cropdl::cuda {

inline CUmemoryPool real_pool(CUmemoryPool pool) { return one_abi::real(pool, one_abi::kind::cudaMemPool); }
// The arena's side of a pool. Each pool of device memory has one, default pools from their first use.
// nullptr: the driver provides the pool's memory itself.
memory::Pool* arenas_side(DeviceMemory& its, CUmemoryPool real);

}  // namespace cropdl::cuda
