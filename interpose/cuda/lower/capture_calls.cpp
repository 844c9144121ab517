// The runtime's and the driver's functions about captures. LH, LH FS base, threads of the program.
#include <vector>

#include "interpose/cuda/lower/captures.h"
#include "interpose/cuda/lower/graphs.h"

using namespace cropdl::cuda;

namespace {

template <class Result>
using StatusOf =
    std::conditional_t<std::is_same_v<Result, CUresult>, CUstreamCaptureStatus, cudaStreamCaptureStatus>;
static_assert(int{cudaStreamCaptureStatusNone} == int{CU_STREAM_CAPTURE_STATUS_NONE} &&
              int{cudaStreamCaptureStatusActive} == int{CU_STREAM_CAPTURE_STATUS_ACTIVE});

// The libraries' queries, with real handles. `own`: stream 0 is the calling thread's own default stream.
cudaError_t info(bool own, CUstream real, cudaStreamCaptureStatus* status, unsigned long long* id,
                 CUgraph* graph, const Node** nodes, const cudaGraphEdgeData** edges, size_t* n) {
  auto* f = own ? CROPDL_CUDART_PTSZ(cudaStreamGetCaptureInfo) : CROPDL_CUDART(cudaStreamGetCaptureInfo);
  return f(real, status, id, graph, nodes, edges, n);
}
CUresult info(bool own, CUstream real, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
              const Node** nodes, const CUgraphEdgeData** edges, size_t* n) {
  auto* f = own ? CROPDL_DRIVER(cuStreamGetCaptureInfo_v3_ptsz) : CROPDL_DRIVER(cuStreamGetCaptureInfo_v3);
  return f(real, status, id, graph, nodes, edges, n);
}

template <class Result, class... Mode>
Result begin_capture(RealFunction<Result(CUstream, Mode...)> begin, CUstream on, Mode... mode) {
  rt::Call call;
  const Result r = begin(stream(on), mode...);
  if (!succeeded(r)) return r;
  StatusOf<Result> status{};
  CUgraph made{};
  info(begin.own, stream(on), &status, nullptr, &made, nullptr, nullptr, nullptr);
  capture_began(rt::word_of(on), begin.own, rt::word_of(made), begin);
  return r;
}

template <class F, class Edge, class Mode>
auto begin_capture_to(RealFunction<F> begin, CUstream on, CUgraph to, const Node* nodes, const Edge* edges,
                      size_t n, Mode mode) {
  rt::Call call;
  const rt::Reals<Node> reals(nodes, n, kind::cudaGraphNode);
  const auto r = begin(stream(on), graph(to), reals.data(), edges, n, mode);
  if (succeeded(r)) capture_began(rt::word_of(on), begin.own, 0, begin);
  return r;
}

template <class Result>
Result end_capture(RealFunction<Result(CUstream, CUgraph*)> end, CUstream on, CUgraph* out) {
  rt::Call call;
  CUgraph made{};
  const Result r = end(stream(on), out ? &made : nullptr);
  StatusOf<Result> status{};  // none
  if (!succeeded(r)) info(end.own, stream(on), &status, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (static_cast<int>(status) == CU_STREAM_CAPTURE_STATUS_NONE)
    capture_ended(rt::word_of(on), end.own, made != nullptr);
  if (out) *out = known(made, kind::cudaGraph, end);
  return r;
}

// The program gets the array as the library's: valid until the thread's next call.
Node* lent_array(size_t n) {
  static thread_local std::vector<Node> array;
  array.assign(n + 1, nullptr);
  return array.data();
}

template <class F, class Status, class Id, class Edge>
auto capture_info(RealFunction<F> ask, CUstream on, Status* status, Id* id, CUgraph* out, const Node** nodes,
                  const Edge** edges, size_t* n) {
  rt::Call call;
  CUgraph of{};
  const Node* its = nullptr;
  size_t count = 0;
  Status now{};
  const auto r = info(ask.own, stream(on), &now, id, out || nodes ? &of : nullptr, nodes ? &its : nullptr,
                      edges, nodes || n ? &count : nullptr);
  if (status) *status = now;
  if (!succeeded(r) || static_cast<int>(now) != CU_STREAM_CAPTURE_STATUS_ACTIVE) return r;
  const CUgraph theirs = out || nodes ? known(of, kind::cudaGraph, ask) : nullptr;
  if (out) *out = theirs;
  if (n) *n = count;
  if (nodes) {
    Node* lent = lent_array(count);
    for (size_t i = 0; i < count; ++i) lent[i] = node_of(rt::word_of(theirs), its[i], ask);
    *nodes = lent;
  }
  return r;
}
template <class F>
auto capture_info(RealFunction<F> ask, CUstream on, CUstreamCaptureStatus* status, cuuint64_t* id,
                  CUgraph* out, const Node** nodes, size_t* n) {
  const CUgraphEdgeData** no_edges = nullptr;
  return capture_info(ask, on, status, id, out, nodes, no_edges, n);
}

}  // namespace

extern "C" {

CROPDL_CALLS(begin_capture)
CROPDL_CALLS(begin_capture_to)
CROPDL_CALLS(end_capture)
CROPDL_CALLS(capture_info)

}  // extern "C"
