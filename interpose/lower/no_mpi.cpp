// The lower half for programs without MPI.
#include "interpose/lower/process.h"

namespace cropdl::lower {
MpiRuntime* mpi_of_this_lower_half() { return nullptr; }
}  // namespace cropdl::lower
