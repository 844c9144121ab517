// The drain of a rank some of whose threads cannot stop: they are inside blocking sends to ranks whose
// receivers have stopped, perhaps likewise (docs/cut.md, "Sends of threads that cross"). A thread of the LH
// takes what has arrived; which needs a level at which it may call the MPI while others do
// (MPI_THREAD_MULTIPLE).
#pragma once

namespace cropdl::mpi {

// Once, when the MPI has been initialised; from then on it waits. Without a thread (a limit) nothing is
// drained early.
void start_early_drain();

// AGENT. Every thread of the program is parked, or inside a blocking send and parks next
// (ThreadRecord::sending).
void begin_early_drain();
// Any thread. When it returns the thread is out of the MPI and touches nothing. Idempotent.
void end_early_drain();

}  // namespace cropdl::mpi
