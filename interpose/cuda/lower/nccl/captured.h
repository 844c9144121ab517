// What of NCCL went into CUDA graphs: it is counted with each launch. A graph refuses checkpoints as long as
// it lives, so this is kept in the process alone. All handles but streams are the real ones. LH, LH FS base,
// threads of the program.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "interpose/counting/counting.h"

namespace cropdl::cuda::nccl {

using Parts = std::vector<counting::Part>;

// The graph that a stream (a virtual handle) is being captured into; null: none.
cudaGraph_t graph_capturing(cudaStream_t stream);
void note_captured(cudaGraph_t graph, const counting::Part& part);
// Records that go (and their room) are in nothing any more.
void forget_records(const void* begin, const void* end);

// For the functions about graphs: `made` also has what `from` has (a clone; a graph that gets another as a
// child).
void graph_takes(cudaGraph_t made, cudaGraph_t from);
void graph_gone(cudaGraph_t graph);
// What a graph or an executable has, which is about to be destroyed; put_back(): it was not.
Parts take_captured(const void* of);
void put_back(const void* to, const Parts& parts);
// It has what the graph has now: instantiated, or updated.
void executable_is(cudaGraphExec_t executable, cudaGraph_t graph);

// Around a launch: false: it is held, and the thread must leave the LH and call again.
bool begin_launch(cudaGraphExec_t executable);
void end_launch(cudaGraphExec_t executable, bool launched);

}  // namespace cropdl::cuda::nccl
