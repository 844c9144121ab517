// Capture: streams that write down what they are given, as a graph, instead of doing it. All functions here
// whose comment does not say otherwise are called with capture_mutex() held. Sources: CUDA Driver API,
// "Stream Management" (cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode); CUDA C++ Programming Guide,
// "Creating a Graph Using Stream Capture".
#pragma once

#include <thread>

#include "gpu_state/software/device/events.h"
#include "gpu_state/software/device/streams.h"

namespace cropdl::device {

struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  std::weak_ptr<CUstream_st> origin;
  std::shared_ptr<CUgraph_st> graph;
  bool into_existing = false;  // cuStreamBeginCaptureToGraph
  bool is_invalid = false;
  std::vector<std::shared_ptr<CUstream_st>> streams;  // the origin, and those that were forked from it
};

// What is asked of the stream needs an implicit dependency on a stream that is captured (it is the legacy
// one): CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and those captures are spoilt.
CUresult check_implicit(const CUstream_st& stream);
// The same without harm: for queries.
bool has_implicit(const CUstream_st& stream);

// For waiting and asking: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED while the stream is captured, or what
// check_implicit() says; the capture is spoilt.
CUresult refuse_while_captured(const CUstream_st& stream);

// The work becomes a node after the stream's dependencies, and the stream's only dependency.
CUresult add_captured(CUstream_st& stream, Work work);

CUresult add_captured_child(CUstream_st& stream, const std::shared_ptr<CUgraph_st>& graph);  // its copy

// The stream goes: with it the capture that began there, and one that it was forked into is spoilt.
void leave_capture(const std::shared_ptr<CUstream_st>& stream);

// The stream's or the event's part of cuStreamWaitEvent and cuEventRecord where a capture is concerned.
CUresult record_captured(CUstream_st& stream, CUevent_st& event, bool external);
CUresult wait_captured(const std::shared_ptr<CUstream_st>& stream, CUevent_st& event, bool external);

// Without the lock, as the driver's functions.
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
