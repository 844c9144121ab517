// Hints of communicators, for the file that duplicates them. UH, any thread.
#pragma once

#include "interpose/mpi/upper/shim.h"

namespace cropdl::shim {

// The hints in `info` that the MPI knows, for a duplicate of `parent`: an Info of the upper half in *hints; 0
// if there are none. Returns a neutral error.
int known_hints(Vid parent, MPI_Info info, Vid* hints);

}  // namespace cropdl::shim
