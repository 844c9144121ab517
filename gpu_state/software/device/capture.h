// Stream capture: streams that record work as a graph instead of running it. Call all functions with
// capture_mutex() held unless their comment says otherwise. Sources: CUDA Driver API, "Stream Management"
// (cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode); CUDA C++ Programming Guide, "Creating a Graph
// Using Stream Capture".
#pragma once

#include "gpu_state/software/device/streams.h"
#include "gpu_state/software/device/work.h"

namespace cropdl::device {

// If work in this stream (the legacy one) would implicitly depend on a captured stream: invalidates those
// captures and returns CUDA_ERROR_STREAM_CAPTURE_IMPLICIT.
CUresult check_implicit(const CUstream_st& stream);
// The same test without invalidating: for queries.
bool has_implicit(const CUstream_st& stream);

// For waits and queries: if the stream is captured, invalidates the capture and returns
// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; otherwise as check_implicit().
CUresult refuse_while_captured(const CUstream_st& stream);

// Invalidates the capture. Returns the error.
CUresult spoil(Capture& capture, CUresult error);

// Adds one to the nodes that the stream's next node depends on, if it is not among them.
void add_dependency(CUstream_st& stream, CUgraphNode node, CUgraphEdgeData data = {});

// Adds the work as a node after the stream's dependencies; the node becomes the stream's only dependency.
CUresult add_captured(CUstream_st& stream, Work work);

CUresult add_captured_child(CUstream_st& stream, const std::shared_ptr<CUgraph_st>& graph);  // a copy of it

// As the driver's functions. Without the lock.
CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode);
CUresult begin_capture_to(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                          const CUgraphEdgeData* data, size_t count, CUstreamCaptureMode mode);
CUresult end_capture(CUstream stream, CUgraph* graph);
CUresult capture_status(CUstream stream, CUstreamCaptureStatus* status);
CUresult capture_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      const CUgraphNode** dependencies, const CUgraphEdgeData** data, size_t* count);
CUresult update_dependencies(CUstream stream, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                             size_t count, unsigned flags);
CUresult exchange_mode(CUstreamCaptureMode* mode);

}  // namespace cropdl::device
