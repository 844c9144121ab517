// The variables by which programs set up the MPI and its transports, and which they may set until MPI_Init
// reads them. The MPI is in the LH, with an environment of its own. LH, LH FS base.
#pragma once

namespace cropdl::mpi {

// On MPI_Init's way: gives the MPI what the program has set or unset since its start, and keeps that in the
// heap. False: the heap is full.
bool take_program_environment();
// At a restart, before the MPI starts: gives it the same. The launcher's other variables stay those of this
// run.
void restore_program_environment();

}  // namespace cropdl::mpi
