// Replaces NCCL's part (library.h) in builds without NCCL.
#include "interpose/cuda/lower/nccl/captured.h"
#include "interpose/cuda/lower/nccl/library.h"

namespace cropdl::cuda::nccl {

void add_counts(std::vector<coord::CollectiveCount>&, uint64_t (*)(uint64_t)) {}
void add_communicators(coord::RankStatus&) {}
bool called() { return false; }
bool drain_step() { return true; }
std::string drain_trouble() { return ""; }
void quiesce() {}
Status restore() { return {}; }
std::string told_at_restart() { return ""; }
Status make_communicators_again(std::span<const std::string>) { return {}; }

void graph_takes(cudaGraph_t, cudaGraph_t) {}
void executable_is(cudaGraphExec_t, cudaGraph_t) {}
Parts take_captured(const void*) { return {}; }
void put_back(const void*, const Parts&) {}
bool begin_launch(cudaGraphExec_t) { return true; }
void end_launch(cudaGraphExec_t, bool) {}

}  // namespace cropdl::cuda::nccl
