// Drains messages on a rank whose threads cannot stop: they are inside blocking sends to ranks whose
// receiving threads have stopped, perhaps likewise (docs/cut.md, "Sends of threads that cross"). A thread of
// the LH receives arrived messages beside them, which needs MPI_THREAD_MULTIPLE.
#pragma once

namespace cropdl::mpi {

// Starts the waiting thread, once, after MPI is initialised. If it cannot be created (a limit), nothing is
// drained early.
void start_early_drain();

// LH, agent's thread. Every thread of the program must be parked, or inside a blocking send after which it
// parks (ThreadRecord::sending).
void begin_early_drain();
// Any thread. On return the thread is out of the MPI and touches nothing. Idempotent.
void end_early_drain();

}  // namespace cropdl::mpi
