#include "gpu_state/software/device/streams.h"

#include <algorithm>
#include <map>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/live.h"
#include "gpu_state/software/device/of_thread.h"

namespace cropdl::device {

namespace {

Live<CUstream_st>& live_streams() {
  static auto* live = new Live<CUstream_st>;
  return *live;
}

// The implicit streams of each context. Guarded by scheduler_mutex().
std::map<CUcontext, std::shared_ptr<CUstream_st>>& legacy_streams() {
  static auto* streams = new std::map<CUcontext, std::shared_ptr<CUstream_st>>;
  return *streams;
}

std::shared_ptr<CUstream_st> legacy_stream(CUcontext context) {
  std::lock_guard lock(scheduler_mutex());
  auto& stream = legacy_streams()[context];
  if (!stream) {
    stream = std::make_shared<CUstream_st>(context, CU_STREAM_DEFAULT, kLeastPriority);
    stream->is_legacy = true;
    context->legacy = stream.get();
    join_everyone(stream);
  }
  return stream;
}

// A thread's per-thread default streams, one for each context that it used; destroyed with the thread.
struct OwnStreams {
  std::map<CUcontext, CUstream> of;
  ~OwnStreams() {
    for (auto& [context, handle] : of) {
      if (auto stream = live_streams().find(handle)) {
        std::lock_guard lock(capture_mutex());
        if (stream->capture) stream->capture->leave(stream);
      }
      destroy_stream(handle);
    }
  }
};

CUresult own_stream(CUcontext context, std::shared_ptr<CUstream_st>* stream) {
  CUstream& handle = OfThread<OwnStreams>::get().of[context];
  if (handle) *stream = live_streams().find(handle);
  if (handle && *stream) return CUDA_SUCCESS;
  CUresult error = create_stream(context, CU_STREAM_DEFAULT, kLeastPriority, &handle);
  if (error == CUDA_SUCCESS) *stream = live_streams().find(handle);
  return error;
}

// Their handles become invalid once their work is done.
void destroy_streams(CUcontext context) {
  std::vector<std::shared_ptr<CUstream_st>> going;
  {
    std::lock_guard lock(capture_mutex());
    for (const auto& stream : live_streams().all())
      if (stream->context == context && live_streams().take(stream.get())) {
        if (stream->capture) stream->capture->leave(stream);
        going.push_back(stream);
      }
  }
  {
    std::lock_guard lock(scheduler_mutex());
    auto legacy = legacy_streams().find(context);
    if (legacy != legacy_streams().end()) {
      going.push_back(legacy->second);
      legacy_streams().erase(legacy);
      context->legacy = nullptr;
    }
  }
  std::vector<MarkPointer> marks;
  for (const auto& stream : going)
    for (const MarkPointer& mark : marks_of(stream)) marks.push_back(mark);
  wait_for_marks(marks, context);
  std::lock_guard lock(scheduler_mutex());
  for (const auto& stream : going) leave(stream);
}

[[maybe_unused]] const bool kGoWithTheirContext = when_a_context_ends(Keeper::kStreams, destroy_streams);

CUresult staying_error(CUcontext context) { return static_cast<CUresult>(context->error.load()); }

}  // namespace

CUresult resolve(CUstream handle, std::shared_ptr<CUstream_st>* stream) {
  if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    CUcontext context = current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (handle == CU_STREAM_PER_THREAD) {
      CUresult error = own_stream(context, stream);
      if (error != CUDA_SUCCESS) return error;
    } else {
      *stream = legacy_stream(context);
    }
  } else {
    *stream = live_streams().find(handle);
    if (!*stream) return CUDA_ERROR_INVALID_HANDLE;
  }
  return staying_error((*stream)->context);
}

CUresult create_stream(CUcontext context, unsigned flags, int priority, CUstream* handle) {
  if (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) return CUDA_ERROR_INVALID_VALUE;
  priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  auto stream = std::make_shared<CUstream_st>(context, flags, priority);
  {
    std::lock_guard lock(scheduler_mutex());
    join_everyone(stream);
  }
  *handle = live_streams().add(std::move(stream));
  return CUDA_SUCCESS;
}

CUresult destroy_stream(CUstream handle) {
  std::lock_guard capture_lock(capture_mutex());
  std::shared_ptr<CUstream_st> stream = live_streams().find(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) {
    stream->capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  live_streams().take(handle);
  std::lock_guard lock(scheduler_mutex());
  leave(stream);
  return CUDA_SUCCESS;
}

CUresult wait_for_marks(const std::vector<MarkPointer>& marks, CUcontext context) {
  wait_until_passed(marks, context);
  if (is_ending() && !all_passed(marks)) return CUDA_ERROR_DEINITIALIZED;
  return staying_error(context);
}

}  // namespace cropdl::device
