// The agent's side of the hold on collectives (collectives.cpp). LH, the agent's thread unless said
// otherwise.
#pragma once

#include <span>

#include "coord/local_rank.h"

namespace cropdl::mpi {

void hold_collectives();
void set_collective_targets(std::span<const coord::CollectiveCount> targets);
void release_collectives();
void fill_collectives(coord::Standing& standing);

// lifecycle.cpp: lets the MPI move its messages; does nothing before MPI_Init and after MPI_Finalize. A
// thread of the program only.
void progress_once();

}  // namespace cropdl::mpi
