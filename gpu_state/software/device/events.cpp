#include "gpu_state/software/device/events.h"

#include <cmath>

#include "gpu_state/software/device/capture.h"
#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/live.h"
#include "gpu_state/software/device/pools.h"
#include "gpu_state/software/device/printed.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

Live<CUevent_st>& live_events() {
  static auto* live = new Live<CUevent_st>;
  return *live;
}

MarkPointer recorded(const CUevent_st& event) {
  std::lock_guard lock(scheduler_mutex());
  return event.recorded;
}

// CUDA_ERROR_CAPTURED_EVENT: its last record was in a capture, so there is no work to wait for; the query
// invalidates the capture.
CUresult refuse_captured(const CUevent_st& event) {
  std::lock_guard lock(capture_mutex());
  if (!event.is_captured) return CUDA_SUCCESS;
  if (auto capture = event.capture.lock()) capture->is_invalid = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

// cuEventRecord and cuStreamWaitEvent when the stream or the event is part of a capture. With capture_mutex()
// held.
CUresult record_captured(CUstream_st& stream, CUevent_st& event, bool external) {
  Capture& capture = *stream.capture;
  if (capture.is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (external) return add_captured(stream, RecordWork{&event, true});
  event.capture = stream.capture;
  event.is_captured = true;
  event.captured_nodes = stream.dependencies;
  return CUDA_SUCCESS;
}

CUresult wait_captured(const std::shared_ptr<CUstream_st>& stream, CUevent_st& event, bool external) {
  if (stream->capture && stream->capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (external)
    return stream->capture ? add_captured(*stream, WaitWork{&event, true}) : CUDA_ERROR_INVALID_VALUE;
  if (!event.is_captured) {
    std::lock_guard lock(scheduler_mutex());
    // Work before the capture would have to run at every launch. An event that was never recorded is ignored.
    return event.recorded ? spoil(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION) : CUDA_SUCCESS;
  }
  auto capture = event.capture.lock();
  if (!capture) {  // the capture has ended, and its nodes are not work to wait for
    if (stream->capture) stream->capture->is_invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->is_legacy) return spoil(*capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  if (stream->capture && stream->capture != capture) {
    spoil(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    return spoil(*capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  if (!stream->capture) {
    stream->capture = capture;
    stream->dependencies.clear();
    stream->dependency_data.clear();
    capture->streams.push_back(stream);
  }
  for (CUgraphNode node : event.captured_nodes) add_dependency(*stream, node);
  return CUDA_SUCCESS;
}

void destroy_events(CUcontext context) {
  for (const auto& event : live_events().all())
    if (event->context == context) live_events().take(event.get());
}

[[maybe_unused]] const bool kGoWithTheirContext = when_a_context_ends(Keeper::kEvents, destroy_events);

}  // namespace

CUresult create_event(CUcontext context, unsigned flags, CUevent* handle) {
  constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (flags & ~kKnown) return CUDA_ERROR_INVALID_VALUE;
  if (flags & CU_EVENT_INTERPROCESS) {
    if (!(flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
    settings::say_not_built("cuEventCreate with CU_EVENT_INTERPROCESS");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  auto event = std::make_shared<CUevent_st>();
  event->context = context;
  event->flags = flags;
  *handle = live_events().add(std::move(event));
  return CUDA_SUCCESS;
}

CUresult destroy_event(CUevent handle) {
  return live_events().take(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

std::shared_ptr<CUevent_st> find_event(CUevent handle) { return live_events().find(handle); }

CUresult record_event(CUevent handle, CUstream stream_handle, bool external) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = resolve(stream_handle, &stream); error != CUDA_SUCCESS) return error;
  std::shared_ptr<CUevent_st> event = find_event(handle);
  if (!event || event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(capture_mutex());
  if (CUresult error = check_implicit(*stream); error != CUDA_SUCCESS) return error;
  if (stream->capture) return record_captured(*stream, *event, external);
  if (external) return CUDA_ERROR_INVALID_VALUE;
  MarkPointer mark = enqueue(stream, {});
  if (!mark) return CUDA_ERROR_OUT_OF_MEMORY;
  event->is_captured = false;
  event->capture.reset();
  event->captured_nodes.clear();
  std::lock_guard scheduler(scheduler_mutex());
  event->recorded = std::move(mark);
  return CUDA_SUCCESS;
}

CUresult wait_for_event(CUstream stream_handle, CUevent handle, bool external) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = resolve(stream_handle, &stream); error != CUDA_SUCCESS) return error;
  std::shared_ptr<CUevent_st> event = find_event(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(capture_mutex());
  if (stream->capture || event->is_captured) return wait_captured(stream, *event, external);
  if (CUresult error = check_implicit(*stream); error != CUDA_SUCCESS) return error;
  if (external) return CUDA_ERROR_INVALID_VALUE;
  if (MarkPointer mark = recorded(*event); mark && !enqueue(stream, {}, {std::move(mark)}))
    return CUDA_ERROR_OUT_OF_MEMORY;
  return CUDA_SUCCESS;
}

CUresult query_event(CUevent handle) {
  std::shared_ptr<CUevent_st> event = find_event(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult error = refuse_captured(*event); error != CUDA_SUCCESS) return error;
  if (CUresult error = unsafe_while_capturing(); error != CUDA_SUCCESS) return error;
  MarkPointer mark = recorded(*event);
  if (!mark) return CUDA_SUCCESS;
  auto staying = static_cast<CUresult>(event->context->error.load());
  return staying != CUDA_SUCCESS || all_passed({mark}) ? staying : CUDA_ERROR_NOT_READY;
}

CUresult synchronize_event(CUevent handle) {
  std::shared_ptr<CUevent_st> event = find_event(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult error = refuse_captured(*event); error != CUDA_SUCCESS) return error;
  if (CUresult error = unsafe_while_capturing(); error != CUDA_SUCCESS) return error;
  MarkPointer mark = recorded(*event);
  if (!mark) return CUDA_SUCCESS;
  CUresult error = wait_for_marks({mark}, event->context);
  pools_after_waiting();
  show_printed(event->context);
  return error;
}

CUresult elapsed_time(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<CUevent_st> start = find_event(start_handle), end = find_event(end_handle);
  if (!start || !end || start->context != end->context) return CUDA_ERROR_INVALID_HANDLE;
  if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& event : {start, end})
    if (CUresult error = refuse_captured(*event); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(scheduler_mutex());
  if (!start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
  if (!start->recorded->passed || !end->recorded->passed) return CUDA_ERROR_NOT_READY;
  constexpr double kResolution = 500;  // in ns, of cuEventElapsedTime
  auto ticks = [](const MarkPointer& mark) {
    return std::floor(static_cast<double>(mark->time) / kResolution);
  };
  *milliseconds = static_cast<float>((ticks(end->recorded) - ticks(start->recorded)) * kResolution / 1e6);
  return CUDA_SUCCESS;
}

}  // namespace cropdl::device
