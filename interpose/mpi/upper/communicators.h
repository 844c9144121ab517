// The cache of ranks and sizes, for the files that end a communicator or MPI itself. UH, any thread.
#pragma once

#include "interpose/mpi/upper/objects.h"

namespace cropdl::shim {

void forget_rank(Vid comm);
void forget_ranks();

}  // namespace cropdl::shim
