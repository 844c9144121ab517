// The start and end of MPI. UH, any thread. MPI_Init initialises the MPI underneath at the level requested.
#include <unistd.h>

#include "interpose/mpi/upper/attributes.h"
#include "interpose/seam/message.h"
#include "interpose/seam/state.h"

#if defined(CROPDL_ABI_MPICH)
// What MPICH's libmpichfort passes where a program with mpi_f08 passes MPI_UNWEIGHTED or MPI_WEIGHTS_EMPTY.
// The library defines both itself, before the shim in the order of symbols, so a value in the shim's data is
// not enough. Weak: an MPICH without Fortran has neither.
extern "C" __attribute__((weak, visibility("default"))) const int* MPIR_C_MPI_UNWEIGHTED;
extern "C" __attribute__((weak, visibility("default"))) const int* MPIR_C_MPI_WEIGHTS_EMPTY;
#endif

namespace cropdl::shim {

static int init(int required, int* provided, seam::Fn fn) {
  if (!seam::control()->libraries[seam::kLibraryMpi].table) {
    seam::say_by_c_library(
        "cropdl: the program calls MPI, but it is not linked with one and no launcher started it; start it "
        "with mpirun -n 1 cropdl-run\n");
    _exit(1);
  }
  seam::state()->environ_variable = reinterpret_cast<uint64_t>(&environ);
  int level = seam::kThreadSingle;
  const int r = fn == seam::kFn_MPI_Init ? call_library<int>(fn) : call_library<int>(fn, required, &level);
  if (r) return fail_mpi_call(kNoObject, r, fn);
  if (provided) *provided = constants::from_seam_thread_level(level);
#if defined(CROPDL_ABI_OPENMPI)
  ompi_mpi_state = 2;
#else
  if (&MPIR_C_MPI_UNWEIGHTED) MPIR_C_MPI_UNWEIGHTED = MPI_UNWEIGHTED;
  if (&MPIR_C_MPI_WEIGHTS_EMPTY) MPIR_C_MPI_WEIGHTS_EMPTY = MPI_WEIGHTS_EMPTY;
#endif
  return MPI_SUCCESS;
}

// main's arguments stay unchanged: no MPI has removed any for twenty years.
MPI_FUNCTION(int, Init, int*, char***) { return init(seam::kThreadSingle, nullptr, seam::kFn_MPI_Init); }
MPI_FUNCTION(int, Init_thread, int*, char***, int required, int* provided) {
  return init(constants::to_seam_thread_level(required), provided, seam::kFn_MPI_Init_thread);
}

MPI_FUNCTION(int, Finalize, void) {
  // MPI-3.1, 8.7.1: the delete callbacks of MPI_COMM_SELF's attributes run first, while MPI still works.
  const int deleted = delete_attributes(seam::kVid_MPI_COMM_SELF);
  if (deleted != MPI_SUCCESS)
    return fail_mpi_call_with(seam::kVid_MPI_COMM_SELF, deleted, seam::kFn_MPI_Finalize);
  if (!kIsOpenMpi) delete_attributes(seam::kVid_MPI_COMM_WORLD);
  const int r = call_library<int>(seam::kFn_MPI_Finalize);
  if (r) return fail_mpi_call(kNoObject, r, seam::kFn_MPI_Finalize);
  forget_ranks();
#if defined(CROPDL_ABI_OPENMPI)
  ompi_mpi_state = 5;
  delete_attributes(seam::kVid_MPI_COMM_WORLD);  // Open MPI does when MPI_Finalized is true already
#endif
  return MPI_SUCCESS;
}

}  // namespace cropdl::shim
