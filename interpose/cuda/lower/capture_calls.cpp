// The runtime's and the driver's functions about captures. LH, LH FS base, threads of the program.
#include <vector>

#include "interpose/cuda/lower/captures.h"
#include "interpose/cuda/lower/graph_calls.h"

namespace cropdl::cuda {
namespace {

// The program gets the array as the library's: valid until the thread's next call.
Node* lent_array(size_t n) {
  static thread_local std::vector<Node> array;
  array.assign(n + 1, nullptr);
  return array.data();
}

// --- The functions. `Api`: a library's types, and its query with real handles. kOwn: the variants in which
// stream 0 is the calling thread's own default stream.

struct RuntimeApi {
  using Result = cudaError_t;
  using Status = cudaStreamCaptureStatus;
  using Id = unsigned long long;
  using Edge = cudaGraphEdgeData;
  using Mode = cudaStreamCaptureMode;
  static constexpr Status kNone = cudaStreamCaptureStatusNone, kActive = cudaStreamCaptureStatusActive;
  template <bool kOwn, class... Arguments>
  static Result info(Arguments... arguments) {
    auto* f = kOwn ? CROPDL_CUDART_PTSZ(cudaStreamGetCaptureInfo) : CROPDL_CUDART(cudaStreamGetCaptureInfo);
    return f(arguments...);
  }
};

struct DriverApi {
  using Result = CUresult;
  using Status = CUstreamCaptureStatus;
  using Id = cuuint64_t;
  using Edge = CUgraphEdgeData;
  using Mode = CUstreamCaptureMode;
  static constexpr Status kNone = CU_STREAM_CAPTURE_STATUS_NONE, kActive = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  template <bool kOwn, class... Arguments>
  static Result info(Arguments... arguments) {
    auto* f = kOwn ? CROPDL_DRIVER(cuStreamGetCaptureInfo_v3_ptsz) : CROPDL_DRIVER(cuStreamGetCaptureInfo_v3);
    return f(arguments...);
  }
};

template <class Api, bool kOwn, class F, class... Mode>
auto begin_capture(RealFunction<F> begin, CUstream on, Mode... mode) {
  rt::Call call;
  const auto r = begin(stream(on), mode...);
  if (!succeeded(r)) return r;
  typename Api::Status status{};
  CUgraph made{};
  Api::template info<kOwn>(stream(on), &status, nullptr, &made, nullptr, nullptr, nullptr);
  capture_began(rt::word_of(on), kOwn, rt::word_of(made), begin);
  return r;
}

template <class Api, bool kOwn, class F>
auto begin_capture_to(RealFunction<F> begin, CUstream on, CUgraph to, const Node* nodes,
                      const typename Api::Edge* edges, size_t n, typename Api::Mode mode) {
  rt::Call call;
  const rt::Reals<Node> reals(nodes, n, kind::cudaGraphNode);
  const auto r = begin(stream(on), graph(to), reals.data(), edges, n, mode);
  if (succeeded(r)) capture_began(rt::word_of(on), kOwn, 0, begin);
  return r;
}

template <class Api, bool kOwn, class F>
auto end_capture(RealFunction<F> end, CUstream on, CUgraph* out) {
  rt::Call call;
  CUgraph made{};
  const auto r = end(stream(on), out ? &made : nullptr);
  auto status = Api::kNone;
  if (!succeeded(r))
    Api::template info<kOwn>(stream(on), &status, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (status == Api::kNone) capture_ended(rt::word_of(on), kOwn, made != nullptr);
  if (out) *out = known(made, kind::cudaGraph, end);
  return r;
}

template <class Api, bool kOwn>
typename Api::Result capture_info(CUstream on, typename Api::Status* status, typename Api::Id* id,
                                  CUgraph* out, const Node** nodes, const typename Api::Edge** edges,
                                  size_t* n, Maker m) {
  rt::Call call;
  CUgraph of{};
  const Node* its = nullptr;
  size_t count = 0;
  auto now = Api::kNone;
  const auto r = Api::template info<kOwn>(stream(on), &now, id, out || nodes ? &of : nullptr,
                                          nodes ? &its : nullptr, edges, nodes || n ? &count : nullptr);
  if (status) *status = now;
  if (!succeeded(r) || now != Api::kActive) return r;
  const CUgraph theirs = out || nodes ? known(of, kind::cudaGraph, m) : nullptr;
  if (out) *out = theirs;
  if (n) *n = count;
  if (nodes) {
    Node* lent = lent_array(count);
    for (size_t i = 0; i < count; ++i) lent[i] = node_of(rt::word_of(theirs), its[i], m);
    *nodes = lent;
  }
  return r;
}

}  // namespace
}  // namespace cropdl::cuda

using namespace cropdl::cuda;

extern "C" {

CUresult lower_cuStreamBeginCapture(CUstream on) {
  return begin_capture<DriverApi, false>(CROPDL_DRIVER_FUNCTION(cuStreamBeginCapture), on);
}
CUresult lower_cuStreamBeginCapture_ptsz(CUstream on) {
  return begin_capture<DriverApi, true>(CROPDL_DRIVER_FUNCTION(cuStreamBeginCapture_ptsz), on);
}

#define BEGIN_CAPTURE(Api, name, own, real_function)         \
  Api::Result lower_##name(CUstream on, Api::Mode mode) {    \
    return begin_capture<Api, own>(real_function, on, mode); \
  }
BEGIN_CAPTURE(DriverApi, cuStreamBeginCapture_v2, false, CROPDL_DRIVER_FUNCTION(cuStreamBeginCapture_v2))
BEGIN_CAPTURE(DriverApi, cuStreamBeginCapture_v2_ptsz, true,
              CROPDL_DRIVER_FUNCTION(cuStreamBeginCapture_v2_ptsz))
BEGIN_CAPTURE(RuntimeApi, cudaStreamBeginCapture, false, CROPDL_CUDART_FUNCTION(cudaStreamBeginCapture))
BEGIN_CAPTURE(RuntimeApi, cudaStreamBeginCapture_ptsz, true,
              CROPDL_CUDART_PTSZ_FUNCTION(cudaStreamBeginCapture))
#undef BEGIN_CAPTURE

#define BEGIN_CAPTURE_TO_GRAPH(Api, name, own, real_function)                                            \
  Api::Result lower_##name(CUstream on, CUgraph to, const Node* nodes, const Api::Edge* edges, size_t n, \
                           Api::Mode mode) {                                                             \
    return begin_capture_to<Api, own>(real_function, on, to, nodes, edges, n, mode);                     \
  }
BEGIN_CAPTURE_TO_GRAPH(DriverApi, cuStreamBeginCaptureToGraph, false,
                       CROPDL_DRIVER_FUNCTION(cuStreamBeginCaptureToGraph))
BEGIN_CAPTURE_TO_GRAPH(DriverApi, cuStreamBeginCaptureToGraph_ptsz, true,
                       CROPDL_DRIVER_FUNCTION(cuStreamBeginCaptureToGraph_ptsz))
BEGIN_CAPTURE_TO_GRAPH(RuntimeApi, cudaStreamBeginCaptureToGraph, false,
                       CROPDL_CUDART_FUNCTION(cudaStreamBeginCaptureToGraph))
BEGIN_CAPTURE_TO_GRAPH(RuntimeApi, cudaStreamBeginCaptureToGraph_ptsz, true,
                       CROPDL_CUDART_PTSZ_FUNCTION(cudaStreamBeginCaptureToGraph))
#undef BEGIN_CAPTURE_TO_GRAPH

#define END_CAPTURE(Api, name, own, real_function)        \
  Api::Result lower_##name(CUstream on, CUgraph* out) {   \
    return end_capture<Api, own>(real_function, on, out); \
  }
END_CAPTURE(DriverApi, cuStreamEndCapture, false, CROPDL_DRIVER_FUNCTION(cuStreamEndCapture))
END_CAPTURE(DriverApi, cuStreamEndCapture_ptsz, true, CROPDL_DRIVER_FUNCTION(cuStreamEndCapture_ptsz))
END_CAPTURE(RuntimeApi, cudaStreamEndCapture, false, CROPDL_CUDART_FUNCTION(cudaStreamEndCapture))
END_CAPTURE(RuntimeApi, cudaStreamEndCapture_ptsz, true, CROPDL_CUDART_PTSZ_FUNCTION(cudaStreamEndCapture))
#undef END_CAPTURE

#define CAPTURE_INFO(Api, name, own, maker)                                                                 \
  Api::Result lower_##name(CUstream on, Api::Status* status, Api::Id* id, CUgraph* out, const Node** nodes, \
                           const Api::Edge** edges, size_t* n) {                                            \
    return capture_info<Api, own>(on, status, id, out, nodes, edges, n, maker(name));                       \
  }
CAPTURE_INFO(DriverApi, cuStreamGetCaptureInfo_v3, false, CROPDL_DRIVER_MAKER)
CAPTURE_INFO(DriverApi, cuStreamGetCaptureInfo_v3_ptsz, true, CROPDL_DRIVER_MAKER)
CAPTURE_INFO(RuntimeApi, cudaStreamGetCaptureInfo, false, CROPDL_CUDART_MAKER)
CAPTURE_INFO(RuntimeApi, cudaStreamGetCaptureInfo_ptsz, true, CROPDL_CUDART_MAKER)
#undef CAPTURE_INFO

CUresult lower_cuStreamGetCaptureInfo_v2(CUstream on, CUstreamCaptureStatus* status, cuuint64_t* id,
                                         CUgraph* out, const Node** nodes, size_t* n) {
  return capture_info<DriverApi, false>(on, status, id, out, nodes, nullptr, n,
                                        CROPDL_DRIVER_MAKER(cuStreamGetCaptureInfo_v2));
}
CUresult lower_cuStreamGetCaptureInfo_v2_ptsz(CUstream on, CUstreamCaptureStatus* status, cuuint64_t* id,
                                              CUgraph* out, const Node** nodes, size_t* n) {
  return capture_info<DriverApi, true>(on, status, id, out, nodes, nullptr, n,
                                       CROPDL_DRIVER_MAKER(cuStreamGetCaptureInfo_v2_ptsz));
}

}  // extern "C"
