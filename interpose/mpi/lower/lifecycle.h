// Starts the MPI and makes it progress (lifecycle.cpp). LH, the program's main thread unless said otherwise.
#pragma once

namespace cropdl::mpi {

// In place of a level: MPI_Init. MPIs take it from OMPI_MPI_THREAD_LEVEL, MPIR_CVAR_DEFAULT_THREAD_LEVEL.
inline constexpr int kLevelOfEnvironment = -1;
// Calls MPI_Init_thread with a seam::ThreadLevel, with all signals blocked. Returns the MPI's code.
int initialize_mpi(int required);

// Makes the MPI progress; does nothing before MPI_Init and after MPI_Finalize. Any thread of the program.
void progress_once();
// Whether the program's thread level lets the calling thread, now in no MPI call, make one: the level may
// forbid the thread every call, or calls beside another thread's.
bool may_call_beside_others();

// Between MPI_Init and MPI_Finalize, when the process ends by itself: else Hydra kills all ranks that still
// run, and `mpirun` fails. Does nothing under other launchers. Calls no MPI function: a thread may be in one.
void leave_hydra();

// --- environment.cpp: the variables by which programs set up the MPI and its transports, and which they may
// set until MPI_Init reads them. The MPI is in the LH, with an environment of its own.

// On MPI_Init's way: gives the MPI what the program has set or unset since its start, and keeps that in the
// heap. False: the heap is full.
bool take_program_environment();
// At a restart, before the MPI starts: gives it the same. The launcher's other variables are this run's.
void restore_program_environment();
// Before the two: gives it the job's settings of algorithms that this run's environment does not have
// (`mpirun --mca coll_...`, a shell's MPIR_CVAR_...). One that it has otherwise counts, and a line says so.
void restore_settings_of_sums();

}  // namespace cropdl::mpi
