// NCCL calls captured into CUDA graphs, counted at each launch. Not in images: a graph refuses checkpoints
// while it exists. All handles but streams are real. LH, LH FS base, threads of the program.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "interpose/counting/counting.h"

namespace cropdl::cuda::nccl {

using Parts = std::vector<counting::Part>;

void note_captured(cudaGraph_t graph, const counting::Part& part);
// Removes the records in this range, whose memory is about to be freed, from all graphs.
void forget_records(const void* begin, const void* end);

// For functions about graphs: `made` also gets the calls of `from` (a clone, or the parent of a child graph).
void graph_takes(cudaGraph_t made, cudaGraph_t from);
// Removes and returns the calls of a graph or executable, before it is destroyed; put_back() if that failed.
Parts take_captured(const void* of);
void put_back(const void* to, const Parts& parts);
// The executable gets the calls that the graph has now: instantiated, or updated.
void executable_is(cudaGraphExec_t executable, cudaGraph_t graph);

// Enclose a launch. begin_launch() returns false if the launch is held: leave the LH and call again.
bool begin_launch(cudaGraphExec_t executable);
void end_launch(cudaGraphExec_t executable, bool launched);

}  // namespace cropdl::cuda::nccl
