// NCCL's part of the plug-in, called by the library of CUDA's family (interpose/cuda/lower/library.cpp). LH,
// LH FS base. AGENT, MAIN and START as in interpose/libraries/library.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "coord/local_rank.h"

namespace cropdl::cuda::nccl {

// AGENT.
void add_counts(std::vector<coord::CollectiveCount>& counts, uint64_t (*target)(uint64_t identity));
// Adds the communicators; as "inside" non-blocking ones being made, which their peers may not have begun.
void add_communicators(coord::RankStatus& status);

// Any thread. Whether the program has ever made or prepared a communicator.
bool called();

// Waits while the rank is stopped. Once all ranks have begun the pending work of non-blocking communicators,
// NCCL finishes it itself.
bool drain_step();            // true: none is left. MAIN
std::string drain_trouble();  // why drain_step() can never be true, or ""; AGENT or MAIN
void quiesce();               // MAIN. All members' counts are equal: drops the counts of ended communicators

// START. restore(): after the family's objects are made. `told`: the lines of all ranks.
Status restore();
std::string told_at_restart();
Status make_communicators_again(std::span<const std::string> told);

}  // namespace cropdl::cuda::nccl
