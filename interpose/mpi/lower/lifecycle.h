// Starting the MPI, and its progress (lifecycle.cpp). LH, the program's main thread unless said otherwise.
#pragma once

namespace cropdl::mpi {

// MPI_Init_thread at a seam::ThreadLevel, with all signals blocked meanwhile. Returns the MPI's code.
int initialize_mpi(int required);

// Lets the MPI move its messages; does nothing before MPI_Init and after MPI_Finalize. Any thread of the
// program.
void progress_once();
// Whether the calling thread, which is in no call of the MPI, may make one by the level of threads that the
// program has: it may be one that must not call it at all, or not beside another one that does.
bool may_call_beside_others();

// Between MPI_Init and MPI_Finalize, when the process ends by itself: without it Hydra kills all ranks that
// have not ended yet, and `mpirun` ends with that. Nothing under another launcher. Makes no call of the MPI,
// which no thread may be inside.
void leave_hydra();

}  // namespace cropdl::mpi
