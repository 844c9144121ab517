// Captures of streams into graphs. One under way refuses checkpoints. LH, LH FS base, the program's threads.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "interpose/cuda/lower/real.h"

namespace cropdl::cuda {

// A stream's capture begins or ends. `stream`: as the program names it; `own`: its 0 is the calling thread's
// default stream. `graph`: real handle; null: a graph that the program already had. `made`: the graph now
// belongs to the program; else the graph is gone.
void capture_began(uint64_t stream, bool own, uint64_t graph, Maker m);
void capture_ended(uint64_t stream, bool own, bool made);
void end_captures_of(int device);  // the device is reset: captures of its streams end without a graph

// Whether the program has ever begun a capture. Most programs never do, and then no stream is queried.
extern bool captures_expected;
bool captures_under_way();  // in any stream of the process
// The graph that a stream (virtual handle) is being captured into; null: none.
cudaGraph_t graph_capturing(cudaStream_t stream);

}  // namespace cropdl::cuda
