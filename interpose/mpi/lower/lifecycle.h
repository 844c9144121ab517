// Starting the MPI (lifecycle.cpp). LH, the program's main thread.
#pragma once

namespace cropdl::mpi {

// MPI_Init_thread at a seam::ThreadLevel, with all signals blocked meanwhile. Returns the MPI's code.
int initialize_mpi(int required);

}  // namespace cropdl::mpi
