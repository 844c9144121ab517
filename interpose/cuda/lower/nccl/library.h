// NCCL's part of the plug-in: what the library of CUDA's family (interpose/cuda/lower/library.cpp) asks of
// it. LH, LH FS base. AGENT, MAIN and START as in interpose/libraries/library.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "coord/local_rank.h"

namespace cropdl::cuda::nccl {

// AGENT.
void add_counts(std::vector<coord::CollectiveCount>& counts, uint64_t (*target)(uint64_t identity));
// A communicator that does not block is being made: nobody knows whether the others have begun.
void add_inside(coord::RankStatus& status);

// MAIN, while the rank is stopped. What communicators that do not block still have to do is done by NCCL
// itself, once all ranks have begun it; true: there is nothing left.
bool settled();
std::string trouble();  // AGENT or MAIN. Why that can not be, or ""
void quiesce();         // all members' counts are equal: those of communicators that are ended are not needed

// START. After the family's objects are there, and again when it is known what every rank has told.
Status restore();
std::string told_at_restart();
Status make_communicators_again(std::span<const std::string> told);

}  // namespace cropdl::cuda::nccl
