// The existing streams, and the handles that denote them.
#pragma once

#include <thread>

#include "gpu_state/software/device/streams_queue.h"

namespace cropdl::device {

constexpr int kLeastPriority = 0, kGreatestPriority = -5;  // cuCtxGetStreamPriorityRange

// A capture that streams take part in (capture.h). Guarded by capture_mutex().
struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  std::weak_ptr<CUstream_st> origin;
  std::shared_ptr<CUgraph_st> graph;
  bool into_existing = false;  // cuStreamBeginCaptureToGraph
  bool is_invalid = false;
  std::vector<std::shared_ptr<CUstream_st>> streams;  // the origin and the streams forked from it
  // For a stream that is destroyed with its thread or context: ends a capture that began in it and
  // invalidates one that it was forked into.
  void (*leave)(const std::shared_ptr<CUstream_st>& stream) = nullptr;
};

// Resolves a stream handle for this thread: null and CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, or an existing
// stream. CUDA_ERROR_INVALID_HANDLE; CUDA_ERROR_INVALID_CONTEXT: a special handle without a current context;
// the sticky error of the stream's context.
CUresult resolve(CUstream handle, std::shared_ptr<CUstream_st>* stream);

CUresult create_stream(CUcontext context, unsigned flags, int priority, CUstream* handle);
// Returns immediately; pending work still runs.
CUresult destroy_stream(CUstream handle);

// Waits for the marks. Returns early with the sticky error if the context breaks.
CUresult wait_for_marks(const std::vector<MarkPointer>& marks, CUcontext context);

}  // namespace cropdl::device
