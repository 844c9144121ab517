// Topologies in the recipes of communicators (topologies.cpp).
#pragma once

#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {

// Reads the communicator's topology as its recipe stores it; empty if it has none. Returns a code of the MPI.
int read_topology(MPI_Comm comm, std::vector<int>* topology);

// Replaces `comm` by a communicator of the same members with the topology. Collective over `comm`.
int lay_topology(std::span<const int> topology, MPI_Comm* comm);

}  // namespace cropdl::mpi
