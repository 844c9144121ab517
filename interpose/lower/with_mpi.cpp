// The lower half for programs with MPI: linked once with each MPI.
#include "interpose/lower/process.h"

namespace cropdl::lower {
MpiRuntime* mpi_of_this_lower_half() { return make_mpi_runtime(); }
}  // namespace cropdl::lower
