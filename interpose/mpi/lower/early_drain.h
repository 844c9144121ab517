// Drains messages on a rank whose threads cannot stop: they are inside blocking sends to ranks whose
// receiving threads have stopped, perhaps likewise (docs/cut.md, "Sends of threads that cross"). A thread of
// the LH receives arrived messages beside them, which needs MPI_THREAD_MULTIPLE.
#pragma once

#include <atomic>

#include "base/float_modes.h"

namespace cropdl::mpi {

// Of the thread that last began a blocking send: natively it would go on with the reductions that the program
// has begun, and the draining thread does so in its place.
inline std::atomic<FloatModes> modes_of_sender{FloatModes{0x1f80, 0x037f}};
static_assert(std::atomic<FloatModes>::is_always_lock_free);

// Starts the waiting thread, once, after MPI is initialised. If it cannot be created (a limit), nothing is
// drained early.
void start_early_drain();

// LH, agent's thread. Every thread of the program must be parked, or inside a blocking send after which it
// parks (ThreadRecord::sending).
void begin_early_drain();
// Any thread. On return the thread is out of the MPI and touches nothing. Idempotent.
void end_early_drain();

}  // namespace cropdl::mpi
