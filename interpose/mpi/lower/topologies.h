// Topologies in the recipes of communicators (topologies.cpp).
#pragma once

#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {

// What a recipe holds of the communicator's topology; empty: it has none. Returns a code of the MPI.
int read_topology(MPI_Comm comm, std::vector<int>* topology);

// Lays it over a communicator of the same members, which is replaced. Collective over it.
int lay_topology(std::span<const int> topology, MPI_Comm* comm);

}  // namespace cropdl::mpi
