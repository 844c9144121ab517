// Functions about graphs and captures that the runtime and the driver share: the handle types are the same,
// and success is 0 in both. `Api` is one of the two: Result, Status, Id, Edge, and info() and end() of a
// capture, with real handles. kOwn: the variants in which stream 0 is the calling thread's own default
// stream. LH, LH FS base, threads of the program.
#pragma once

#include "interpose/cuda/lower/graphs.h"
#include "interpose/cuda/lower/nccl/captured.h"
#include "interpose/one_abi/held.h"

namespace cropdl::cuda {

static_assert(std::is_same_v<CUgraph, cudaGraph_t> && std::is_same_v<CUgraphNode, cudaGraphNode_t> &&
              std::is_same_v<CUgraphExec, cudaGraphExec_t> && std::is_same_v<CUstream, cudaStream_t> &&
              std::is_same_v<CUevent, cudaEvent_t>);
static_assert(static_cast<int>(CUDA_SUCCESS) == cudaSuccess);
static_assert(static_cast<int>(CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) ==
              cudaGraphInstantiateFlagDeviceLaunch);

using Node = CUgraphNode;
inline Node node(Node n) { return one_abi::real(n, one_abi::kind::cudaGraphNode); }
inline CUgraph graph(CUgraph g) { return one_abi::real(g, one_abi::kind::cudaGraph); }
inline CUgraphExec exec(CUgraphExec e) { return one_abi::real(e, one_abi::kind::cudaGraphExec); }
inline CUstream stream(CUstream s) { return one_abi::real(s, one_abi::kind::cudaStream); }
inline CUevent event(CUevent e) { return one_abi::real(e, one_abi::kind::cudaEvent); }

inline constexpr const char* kGraphsMemory = "a graph allocates memory of the driver's";

template <class Result>
bool succeeded(Result r) {
  return static_cast<int>(r) == CUDA_SUCCESS;
}

template <class Params>
void host_of(Params& p) {
  HostNode n{p.fn, p.userData};
  host_node(n);
  p = {n.function, n.data};
}

template <class Add>
auto add_node(Maker m, Node* out, CUgraph to, const Node* dependencies, size_t n, Add add) {
  Node real{};
  const one_abi::Reals<Node> reals(dependencies, n, one_abi::kind::cudaGraphNode);
  const auto r = add(out ? &real : nullptr, graph(to), reals.data());
  if (!succeeded(r) || !out) return r;
  *out = new_handle(real, one_abi::kind::cudaGraphNode, m);
  one_abi::ends_with(one_abi::word_of(*out), one_abi::word_of(to));
  return r;
}

template <class Clone>
auto clone_graph(Maker m, CUgraph* out, CUgraph original, Clone* clone) {
  one_abi::Call call;
  CUgraph real{};
  const auto r = clone(out ? &real : nullptr, graph(original));
  if (!succeeded(r) || !out) return r;
  *out = new_handle(real, one_abi::kind::cudaGraph, m);
  nccl::graph_takes(real, graph(original));
  return r;
}

// During `destroy`, the driver may give the real handle to another thread, so everything kept by it is
// removed first.
template <class H, class Destroy>
auto end_object(uint64_t word, H real, Destroy* destroy) {
  one_abi::hide_word(word);
  const nccl::Parts parts = nccl::take_captured(real);
  const auto r = destroy(real);
  if (succeeded(r)) {
    one_abi::forget_word(word);
  } else {
    one_abi::show_word(word);
    nccl::put_back(real, parts);
  }
  return r;
}

template <class Destroy>
auto destroy_graph(CUgraph of, Destroy* destroy) {
  one_abi::Call call;
  return end_object(one_abi::word_of(of), graph(of), destroy);
}

template <class Make>
auto instantiate(Maker m, CUgraphExec* out, CUgraph of, unsigned long long flags, Make make) {
  one_abi::Call call;
  CUgraphExec made{};
  const auto r = make(out ? &made : nullptr, graph(of));
  if (!succeeded(r) || !out) return r;
  *out = executable(made, (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0, m);
  nccl::executable_is(made, graph(of));
  return r;
}

template <class Destroy>
auto destroy_executable(CUgraphExec of, Destroy* destroy) {
  one_abi::Call call;
  return end_object(word_of_executable(one_abi::word_of(of)), exec(of), destroy);
}

template <class Result>
Result launch(CUgraphExec what, CUstream on, Result (*launch_it)(CUgraphExec, CUstream)) {
  one_abi::Call call;
  const CUgraphExec real = exec(what);
  if (!begin_launch(real)) return static_cast<Result>(one_abi::kCallAgain);
  const Result r = launch_it(real, stream(on));
  end_launch(real, succeeded(r));
  return r;
}

// --- Captures.

template <class Api, bool kOwn, class Begin>
typename Api::Result begin_capture(Maker m, CUstream on, bool makes_graph, Begin begin) {
  one_abi::Call call;
  const auto r = begin(stream(on));
  if (!succeeded(r)) return r;
  typename Api::Status status{};
  CUgraph made{};
  if (makes_graph) Api::template info<kOwn>(stream(on), &status, nullptr, &made, nullptr, nullptr, nullptr);
  capture_began(one_abi::word_of(on), kOwn, one_abi::word_of(made), m);
  return r;
}

template <class Api, bool kOwn>
typename Api::Result end_capture(CUstream on, CUgraph* out, Maker m) {
  one_abi::Call call;
  CUgraph made{};
  const auto r = Api::template end<kOwn>(stream(on), out ? &made : nullptr);
  auto status = Api::kNone;
  if (!succeeded(r))
    Api::template info<kOwn>(stream(on), &status, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (status == Api::kNone) capture_ended(one_abi::word_of(on), kOwn, made != nullptr);
  if (out) *out = known(made, one_abi::kind::cudaGraph, m);
  return r;
}

template <class Api, bool kOwn>
typename Api::Result capture_info(CUstream on, typename Api::Status* status, typename Api::Id* id,
                                  CUgraph* out, const Node** nodes, const typename Api::Edge** edges,
                                  size_t* n, Maker m) {
  one_abi::Call call;
  CUgraph of{};
  const Node* its = nullptr;
  size_t count = 0;
  auto now = Api::kNone;
  const auto r = Api::template info<kOwn>(stream(on), &now, id, out || nodes ? &of : nullptr,
                                          nodes ? &its : nullptr, edges, nodes || n ? &count : nullptr);
  if (status) *status = now;
  if (!succeeded(r) || now != Api::kActive) return r;
  const CUgraph theirs = out || nodes ? known(of, one_abi::kind::cudaGraph, m) : nullptr;
  if (out) *out = theirs;
  if (n) *n = count;
  if (nodes) {
    Node* lent = reinterpret_cast<Node*>(lent_array(count));
    for (size_t i = 0; i < count; ++i) lent[i] = node_of(one_abi::word_of(theirs), its[i], m);
    *nodes = lent;
  }
  return r;
}

}  // namespace cropdl::cuda
