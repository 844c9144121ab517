// Topologies in the recipes of communicators (topologies.cpp).
#pragma once

#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {

// Reads the new communicator's topology, with its hint for collectives, as its recipe stores it; empty if it
// has neither. Returns a code of the MPI.
int read_topology(MPI_Comm comm, std::vector<int>* topology);

// As a duplicate made without hints has it.
std::span<const int> without_hint(std::span<const int> topology);

// Replaces `comm` by a communicator of the same members with topology and hint. Collective over `comm`.
int lay_topology(std::span<const int> topology, MPI_Comm* comm);

}  // namespace cropdl::mpi
