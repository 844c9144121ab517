// Events. An event refers to the stream's mark at its last record. Sources: CUDA Driver API, "Event
// Management", cuStreamWaitEvent.
#pragma once

#include "gpu_state/software/device/streams.h"

struct CUevent_st {
  CUcontext context = nullptr;
  unsigned flags = 0;
  // Guarded by scheduler_mutex().
  cropdl::device::MarkPointer recorded;  // null: never recorded
  // Guarded by capture_mutex(): set while the last record was in a capture.
  std::weak_ptr<cropdl::device::Capture> capture;
  bool is_captured = false;
  std::vector<CUgraphNode> captured_nodes;
};

namespace cropdl::device {

CUresult create_event(CUcontext context, unsigned flags, CUevent* handle);
CUresult destroy_event(CUevent handle);
std::shared_ptr<CUevent_st> find_event(CUevent handle);

// Both may be part of a capture.
CUresult record_event(CUevent handle, CUstream stream, bool external);
CUresult wait_for_event(CUstream stream, CUevent handle, bool external);

CUresult query_event(CUevent handle);
CUresult synchronize_event(CUevent handle);
CUresult elapsed_time(float* milliseconds, CUevent start, CUevent end);

}  // namespace cropdl::device
