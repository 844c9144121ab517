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
// Before the two: gives it the settings of algorithms with which the job was started, and which this run's
// environment does not have (`mpirun --mca coll_...`, a shell's MPIR_CVAR_...). One that it has otherwise
// counts, and a line says so.
void restore_settings_of_sums();

}  // namespace cropdl::mpi
