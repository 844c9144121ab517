// The runtime's and the driver's functions about captures. LH, LH FS base, threads of the program.
#include <vector>

#include "interpose/cuda/lower/captures.h"
#include "interpose/cuda/lower/graph_calls.h"

namespace rt = cropdl::one_abi;
namespace kind = rt::kind;

namespace cropdl::cuda {
namespace {

// The program gets the array as the library's: valid until the thread's next call.
Node* lent_array(size_t n) {
  static thread_local std::vector<Node> array;
  array.assign(n + 1, nullptr);
  return array.data();
}

// --- The functions. `Api`: a library's types, and its functions with real handles. kOwn: the variants in
// which stream 0 is the calling thread's own default stream.

struct RuntimeCalls {
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
  template <bool kOwn>
  static Result end(cudaStream_t on, cudaGraph_t* out) {
    auto* f = kOwn ? CROPDL_CUDART_PTSZ(cudaStreamEndCapture) : CROPDL_CUDART(cudaStreamEndCapture);
    return f(on, out);
  }
};

struct DriverCalls {
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
  template <bool kOwn>
  static Result end(CUstream on, CUgraph* out) {
    auto* f = kOwn ? CROPDL_DRIVER(cuStreamEndCapture_ptsz) : CROPDL_DRIVER(cuStreamEndCapture);
    return f(on, out);
  }
};

template <class Api, bool kOwn, class Begin>
typename Api::Result begin_capture(Maker m, CUstream on, bool makes_graph, Begin begin) {
  rt::Call call;
  const auto r = begin(stream(on));
  if (!succeeded(r)) return r;
  typename Api::Status status{};
  CUgraph made{};
  if (makes_graph) Api::template info<kOwn>(stream(on), &status, nullptr, &made, nullptr, nullptr, nullptr);
  capture_began(rt::word_of(on), kOwn, rt::word_of(made), m);
  return r;
}

template <class Api, bool kOwn>
typename Api::Result end_capture(CUstream on, CUgraph* out, Maker m) {
  rt::Call call;
  CUgraph made{};
  const auto r = Api::template end<kOwn>(stream(on), out ? &made : nullptr);
  auto status = Api::kNone;
  if (!succeeded(r))
    Api::template info<kOwn>(stream(on), &status, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (status == Api::kNone) capture_ended(rt::word_of(on), kOwn, made != nullptr);
  if (out) *out = known(made, kind::cudaGraph, m);
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
  return begin_capture<DriverCalls, false>(CROPDL_DRIVER_MAKER(cuStreamBeginCapture), on, true,
                                           [&](auto s) { return CROPDL_DRIVER(cuStreamBeginCapture)(s); });
}
CUresult lower_cuStreamBeginCapture_ptsz(CUstream on) {
  return begin_capture<DriverCalls, true>(
      CROPDL_DRIVER_MAKER(cuStreamBeginCapture_ptsz), on, true,
      [&](auto s) { return CROPDL_DRIVER(cuStreamBeginCapture_ptsz)(s); });
}

#define BEGIN_CAPTURE(Api, name, own, maker, real_function)                                                \
  Api::Result lower_##name(CUstream on, Api::Mode mode) {                                                  \
    return begin_capture<Api, own>(maker(name), on, true, [&](auto s) { return real_function(s, mode); }); \
  }
BEGIN_CAPTURE(DriverCalls, cuStreamBeginCapture_v2, false, CROPDL_DRIVER_MAKER,
              CROPDL_DRIVER(cuStreamBeginCapture_v2))
BEGIN_CAPTURE(DriverCalls, cuStreamBeginCapture_v2_ptsz, true, CROPDL_DRIVER_MAKER,
              CROPDL_DRIVER(cuStreamBeginCapture_v2_ptsz))
BEGIN_CAPTURE(RuntimeCalls, cudaStreamBeginCapture, false, CROPDL_CUDART_MAKER,
              CROPDL_CUDART(cudaStreamBeginCapture))
BEGIN_CAPTURE(RuntimeCalls, cudaStreamBeginCapture_ptsz, true, CROPDL_CUDART_MAKER,
              CROPDL_CUDART_PTSZ(cudaStreamBeginCapture))
#undef BEGIN_CAPTURE

#define BEGIN_CAPTURE_TO_GRAPH(Api, name, own, maker, real_function)                                     \
  Api::Result lower_##name(CUstream on, CUgraph to, const Node* nodes, const Api::Edge* edges, size_t n, \
                           Api::Mode mode) {                                                             \
    return begin_capture<Api, own>(maker(name), on, false, [&](auto s) {                                 \
      const rt::Reals<Node> reals(nodes, n, kind::cudaGraphNode);                                        \
      return real_function(s, graph(to), reals.data(), edges, n, mode);                                  \
    });                                                                                                  \
  }
BEGIN_CAPTURE_TO_GRAPH(DriverCalls, cuStreamBeginCaptureToGraph, false, CROPDL_DRIVER_MAKER,
                       CROPDL_DRIVER(cuStreamBeginCaptureToGraph))
BEGIN_CAPTURE_TO_GRAPH(DriverCalls, cuStreamBeginCaptureToGraph_ptsz, true, CROPDL_DRIVER_MAKER,
                       CROPDL_DRIVER(cuStreamBeginCaptureToGraph_ptsz))
BEGIN_CAPTURE_TO_GRAPH(RuntimeCalls, cudaStreamBeginCaptureToGraph, false, CROPDL_CUDART_MAKER,
                       CROPDL_CUDART(cudaStreamBeginCaptureToGraph))
BEGIN_CAPTURE_TO_GRAPH(RuntimeCalls, cudaStreamBeginCaptureToGraph_ptsz, true, CROPDL_CUDART_MAKER,
                       CROPDL_CUDART_PTSZ(cudaStreamBeginCaptureToGraph))
#undef BEGIN_CAPTURE_TO_GRAPH

#define END_CAPTURE(Api, name, own, maker) \
  Api::Result lower_##name(CUstream on, CUgraph* out) { return end_capture<Api, own>(on, out, maker(name)); }
END_CAPTURE(DriverCalls, cuStreamEndCapture, false, CROPDL_DRIVER_MAKER)
END_CAPTURE(DriverCalls, cuStreamEndCapture_ptsz, true, CROPDL_DRIVER_MAKER)
END_CAPTURE(RuntimeCalls, cudaStreamEndCapture, false, CROPDL_CUDART_MAKER)
END_CAPTURE(RuntimeCalls, cudaStreamEndCapture_ptsz, true, CROPDL_CUDART_MAKER)
#undef END_CAPTURE

#define CAPTURE_INFO(Api, name, own, maker)                                                                 \
  Api::Result lower_##name(CUstream on, Api::Status* status, Api::Id* id, CUgraph* out, const Node** nodes, \
                           const Api::Edge** edges, size_t* n) {                                            \
    return capture_info<Api, own>(on, status, id, out, nodes, edges, n, maker(name));                       \
  }
CAPTURE_INFO(DriverCalls, cuStreamGetCaptureInfo_v3, false, CROPDL_DRIVER_MAKER)
CAPTURE_INFO(DriverCalls, cuStreamGetCaptureInfo_v3_ptsz, true, CROPDL_DRIVER_MAKER)
CAPTURE_INFO(RuntimeCalls, cudaStreamGetCaptureInfo, false, CROPDL_CUDART_MAKER)
CAPTURE_INFO(RuntimeCalls, cudaStreamGetCaptureInfo_ptsz, true, CROPDL_CUDART_MAKER)
#undef CAPTURE_INFO

CUresult lower_cuStreamGetCaptureInfo_v2(CUstream on, CUstreamCaptureStatus* status, cuuint64_t* id,
                                         CUgraph* out, const Node** nodes, size_t* n) {
  return capture_info<DriverCalls, false>(on, status, id, out, nodes, nullptr, n,
                                          CROPDL_DRIVER_MAKER(cuStreamGetCaptureInfo_v2));
}
CUresult lower_cuStreamGetCaptureInfo_v2_ptsz(CUstream on, CUstreamCaptureStatus* status, cuuint64_t* id,
                                              CUgraph* out, const Node** nodes, size_t* n) {
  return capture_info<DriverCalls, true>(on, status, id, out, nodes, nullptr, n,
                                         CROPDL_DRIVER_MAKER(cuStreamGetCaptureInfo_v2_ptsz));
}

}  // extern "C"
