// The floating-point modes of the program's threads that make progress in the MPI. Where CropDL makes it for
// them, the program's reductions (MPI_Iallreduce) go on as natively. LH, any thread.
#pragma once

#include <atomic>

#include "base/float_modes.h"

namespace cropdl::mpi {

using ProgressModes = std::atomic<FloatModes>;
static_assert(ProgressModes::is_always_lock_free);

// Of the thread that last began a blocking send: the thread of the early drain (message_drain.cpp) has them.
inline ProgressModes modes_of_sender{FloatModes{0x1f80, 0x037f}};
// Of the thread that last began a nonblocking collective, or tested one that was not complete.
inline ProgressModes modes_of_collectives{FloatModes{0x1f80, 0x037f}};

inline void note_modes(ProgressModes* of) { of->store(float_modes(), std::memory_order_relaxed); }

}  // namespace cropdl::mpi
