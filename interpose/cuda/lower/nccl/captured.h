// What of NCCL went into CUDA graphs: it is counted with each launch. A graph refuses checkpoints as long as
// it lives, so this is kept in the process alone. All handles but streams are the real ones. LH, LH FS base,
// threads of the program.
#pragma once

#include <cuda_runtime_api.h>

#include "interpose/counting/counting.h"

namespace cropdl::cuda::nccl {

// The graph that a stream (a virtual handle) is being captured into; null: none.
cudaGraph_t graph_capturing(cudaStream_t stream);
void note_captured(cudaGraph_t graph, const counting::Part& part);
// Records that go (and their room) are in nothing any more.
void forget_records(const void* begin, const void* end);

// For the functions about graphs: `made` also has what `from` has (a clone; a graph that gets another as a
// child).
void graph_takes(cudaGraph_t made, cudaGraph_t from);
void graph_gone(cudaGraph_t graph);
// It has what the graph has now: instantiated, or updated.
void executable_is(cudaGraphExec_t executable, cudaGraph_t graph);
void executable_gone(cudaGraphExec_t executable);

// Around a launch: false: it is held, and the thread must leave the LH and call again.
bool begin_launch(cudaGraphExec_t executable);
void end_launch(cudaGraphExec_t executable, bool launched);

}  // namespace cropdl::cuda::nccl
