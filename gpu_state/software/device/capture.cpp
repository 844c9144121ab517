#include "gpu_state/software/device/capture.h"

#include <algorithm>
#include <set>

#include "gpu_state/software/device/graphs.h"

namespace cropdl::device {

namespace {

// The active captures. Guarded by capture_mutex().
std::vector<std::shared_ptr<Capture>>& captures() {
  static auto* all = new std::vector<std::shared_ptr<Capture>>;
  return *all;
}
std::atomic<int> captures_going_on{0};  // usually 0, which can be tested without the lock
uint64_t next_capture_id = 1;

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool is_implicit(const Capture& capture, const CUstream_st& legacy) {
  return std::any_of(capture.streams.begin(), capture.streams.end(), [&](const auto& stream) {
    return stream->context == legacy.context && stream->blocks();
  });
}

void set_dependency(CUstream_st& stream, CUgraphNode node) {
  stream.dependencies.assign(1, node);
  stream.dependency_data.assign(1, CUgraphEdgeData{});
}

// Work that cannot be a node: it is refused, and the capture invalidated.
bool can_be_captured(const Work& work) {
  if (auto* host = std::get_if<HostWork>(&work)) return !host->callback;  // cuStreamAddCallback
  return !std::holds_alternative<PrefetchWork>(work);
}

void forget_capture(CUstream_st& stream) {
  stream.capture.reset();
  stream.dependencies.clear();
  stream.dependency_data.clear();
}

void take_out(const std::shared_ptr<Capture>& capture) {
  for (const auto& stream : capture->streams) forget_capture(*stream);
  capture->graph->is_being_captured = false;
  auto& all = captures();
  all.erase(std::remove(all.begin(), all.end(), capture), all.end());
  --captures_going_on;
}

void leave_capture(const std::shared_ptr<CUstream_st>& stream) {
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->origin.lock() == stream) {
    take_out(capture);
    if (!capture->into_existing) forget_graph(*capture->graph);
    return;
  }
  capture->is_invalid = true;
  std::erase(capture->streams, stream);
  forget_capture(*stream);
}

CUresult begin(CUstream handle, std::shared_ptr<CUgraph_st> graph, const CUgraphNode* dependencies,
               const CUgraphEdgeData* data, size_t count, CUstreamCaptureMode mode) {
  if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL && mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
      mode != CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = resolve(handle, &stream); error != CUDA_SUCCESS) return error;
  if (stream->is_legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->into_existing = graph != nullptr;
  if (!graph) graph = find_graph(create_graph());
  graph->is_being_captured = true;
  capture->id = next_capture_id++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  capture->leave = leave_capture;
  capture->graph = std::move(graph);
  capture->streams.push_back(stream);
  stream->dependencies.assign(dependencies, dependencies + count);
  stream->dependency_data.assign(count, CUgraphEdgeData{});
  if (data) stream->dependency_data.assign(data, data + count);
  stream->capture = capture;
  captures().push_back(std::move(capture));
  ++captures_going_on;
  return CUDA_SUCCESS;
}

// Whether the last nodes of every forked stream precede those of the origin.
bool all_joined(const Capture& capture, const CUstream_st& origin) {
  std::set<CUgraphNode> reached(origin.dependencies.begin(), origin.dependencies.end());
  std::vector<CUgraphNode> todo(reached.begin(), reached.end());
  while (!todo.empty()) {
    CUgraphNode node = todo.back();
    todo.pop_back();
    for (const auto& edge : node->before)
      if (reached.insert(edge.node).second) todo.push_back(edge.node);
  }
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](const auto& stream) {
    return std::all_of(stream->dependencies.begin(), stream->dependencies.end(),
                       [&](CUgraphNode node) { return reached.count(node) != 0; });
  });
}

}  // namespace

CUresult spoil(Capture& capture, CUresult error) {
  capture.is_invalid = true;
  return error;
}

void add_dependency(CUstream_st& stream, CUgraphNode node, CUgraphEdgeData data) {
  auto& all = stream.dependencies;
  if (std::find(all.begin(), all.end(), node) != all.end()) return;
  all.push_back(node);
  stream.dependency_data.push_back(data);
}

bool has_implicit(const CUstream_st& stream) {
  return stream.is_legacy && std::any_of(captures().begin(), captures().end(),
                                         [&](const auto& capture) { return is_implicit(*capture, stream); });
}

CUresult check_implicit(const CUstream_st& stream) {
  if (!has_implicit(stream)) return CUDA_SUCCESS;
  for (const auto& capture : captures())
    if (is_implicit(*capture, stream)) capture->is_invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult refuse_while_captured(const CUstream_st& stream) {
  if (stream.capture) return spoil(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return check_implicit(stream);
}

CUresult unsafe_while_capturing() {
  if (captures_going_on.load() == 0 || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  std::lock_guard lock(capture_mutex());
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : captures()) {
    bool is_mine = capture->thread == std::this_thread::get_id();
    bool forbids = is_mine ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                           : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                 thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (forbids) result = spoil(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return result;
}

uint64_t captured_into(CUstream handle) {
  if (captures_going_on.load() == 0) return 0;
  std::shared_ptr<CUstream_st> stream;
  if (resolve(handle, &stream) != CUDA_SUCCESS) return 0;
  std::lock_guard lock(capture_mutex());
  return stream->capture ? stream->capture->graph->id : 0;
}

CUresult add_captured(CUstream_st& stream, Work work) {
  Capture& capture = *stream.capture;
  if (capture.is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!can_be_captured(work)) return spoil(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraphNode node = nullptr;
  CUresult error = add_node(*capture.graph, stream.dependencies.data(), stream.dependency_data.data(),
                            stream.dependencies.size(), std::move(work), stream.context, &node);
  if (error != CUDA_SUCCESS) return spoil(capture, error);
  set_dependency(stream, node);
  return CUDA_SUCCESS;
}

CUresult add_captured_child(CUstream_st& stream, const std::shared_ptr<CUgraph_st>& graph) {
  Capture& capture = *stream.capture;
  if (capture.is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (has_memory_nodes(*graph)) return spoil(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph copy = publish(clone(*graph));
  CUgraphNode node = nullptr;
  CUresult error = add_child(*capture.graph, stream.dependencies.data(), stream.dependency_data.data(),
                             stream.dependencies.size(), copy, true, stream.context, &node);
  if (error != CUDA_SUCCESS) {
    destroy_graph(copy);
    return spoil(capture, error);
  }
  set_dependency(stream, node);
  return CUDA_SUCCESS;
}

CUresult begin_capture(CUstream handle, CUstreamCaptureMode mode) {
  std::lock_guard lock(capture_mutex());
  return begin(handle, nullptr, nullptr, nullptr, 0, mode);
}

CUresult begin_capture_to(CUstream handle, CUgraph graph_handle, const CUgraphNode* dependencies,
                          const CUgraphEdgeData* data, size_t count, CUstreamCaptureMode mode) {
  std::lock_guard lock(capture_mutex());
  auto graph = find_graph(graph_handle);
  if (!graph || graph->is_being_captured || (count && !dependencies)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    auto node = find_node(dependencies[i]);
    if (!node || node->graph != graph.get()) return CUDA_ERROR_INVALID_VALUE;
  }
  return begin(handle, std::move(graph), dependencies, data, count, mode);
}

CUresult end_capture(CUstream handle, CUgraph* graph) {
  *graph = nullptr;
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = resolve(handle, &stream); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(capture_mutex());
  std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin.lock() != stream) return spoil(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult error = capture->is_invalid              ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                   : !all_joined(*capture, *stream) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                                    : CUDA_SUCCESS;
  take_out(capture);
  if (error == CUDA_SUCCESS)
    *graph = capture->graph.get();
  else if (!capture->into_existing)
    forget_graph(*capture->graph);
  return error;
}

CUresult capture_status(CUstream handle, CUstreamCaptureStatus* status) {
  return capture_info(handle, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

CUresult capture_info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      const CUgraphNode** dependencies, const CUgraphEdgeData** data, size_t* count) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = resolve(handle, &stream); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(capture_mutex());
  if (has_implicit(*stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = !stream->capture              ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                          : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  if (dependencies && !data)
    for (const CUgraphEdgeData& edge : stream->dependency_data)
      if (edge.type || edge.from_port || edge.to_port) return CUDA_ERROR_LOSSY_QUERY;
  if (id) *id = stream->capture->id;
  if (graph) *graph = stream->capture->graph.get();
  if (dependencies) *dependencies = stream->dependencies.data();
  if (data) *data = stream->dependency_data.data();
  if (count) *count = stream->dependencies.size();
  return CUDA_SUCCESS;
}

CUresult update_dependencies(CUstream handle, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                             size_t count, unsigned flags) {
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !nodes)) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = resolve(handle, &stream); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(capture_mutex());
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (stream->capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  for (size_t i = 0; i < count; ++i) {
    auto node = find_node(nodes[i]);
    if (!node || node->graph != stream->capture->graph.get()) return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<CUgraphNode> given(nodes, nodes + count);  // may alias the stream's own array
  std::vector<CUgraphEdgeData> given_data(count, CUgraphEdgeData{});
  if (data) given_data.assign(data, data + count);
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    stream->dependencies.clear();
    stream->dependency_data.clear();
  }
  for (size_t i = 0; i < count; ++i) add_dependency(*stream, given[i], given_data[i]);
  return CUDA_SUCCESS;
}

CUresult exchange_mode(CUstreamCaptureMode* mode) {
  if (*mode != CU_STREAM_CAPTURE_MODE_GLOBAL && *mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
      *mode != CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}

}  // namespace cropdl::device
