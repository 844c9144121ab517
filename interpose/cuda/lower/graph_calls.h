// Functions about graphs that the runtime and the driver share: the handle types are the same, and success is
// 0 in both. LH, LH FS base, threads of the program.
#pragma once

#include "interpose/cuda/lower/graphs.h"
#include "interpose/cuda/lower/nccl/captured.h"
#include "interpose/one_abi/held.h"

namespace cropdl::cuda {

static_assert(std::is_same_v<CUgraph, cudaGraph_t> && std::is_same_v<CUgraphNode, cudaGraphNode_t> &&
              std::is_same_v<CUgraphExec, cudaGraphExec_t> && std::is_same_v<CUstream, cudaStream_t> &&
              std::is_same_v<CUevent, cudaEvent_t> && std::is_same_v<CUuserObject, cudaUserObject_t>);
static_assert(static_cast<int>(CUDA_SUCCESS) == cudaSuccess);
static_assert(static_cast<int>(CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) ==
              cudaGraphInstantiateFlagDeviceLaunch);

using Node = CUgraphNode;
inline Node node(Node n) { return rt::real(n, kind::cudaGraphNode); }
inline CUgraph graph(CUgraph g) { return rt::real(g, kind::cudaGraph); }
inline CUgraphExec exec(CUgraphExec e) { return rt::real(e, kind::cudaGraphExec); }
inline CUstream stream(CUstream s) { return rt::real(s, kind::cudaStream); }
inline CUevent event(CUevent e) { return rt::real(e, kind::cudaEvent); }

template <class Result>
bool succeeded(Result r) {
  return static_cast<int>(r) == CUDA_SUCCESS;
}

template <class F>
auto clone_graph(RealFunction<F> clone, CUgraph* out, CUgraph original) {
  rt::Call call;
  CUgraph real{};
  const auto r = clone(out ? &real : nullptr, graph(original));
  if (!succeeded(r) || !out) return r;
  *out = new_handle(real, kind::cudaGraph, clone);
  nccl::graph_takes(real, graph(original));
  return r;
}

// During `destroy`, another thread may get the real handle, so everything kept by it is removed first.
template <class H, class F>
auto end_object(uint64_t word, H real, RealFunction<F> destroy) {
  rt::hide_word(word);
  const nccl::Parts parts = nccl::take_captured(real);
  const auto r = destroy(real);
  if (succeeded(r)) {
    rt::forget_word(word);
  } else {
    rt::show_word(word);
    nccl::put_back(real, parts);
  }
  return r;
}

template <class F>
auto destroy_graph(CUgraph of, RealFunction<F> destroy) {
  rt::Call call;
  return end_object(rt::word_of(of), graph(of), destroy);
}

// --- Executable graphs.

template <class F, class... More>
auto instantiate_in_call(RealFunction<F> make, CUgraphExec* out, CUgraph of, unsigned long long flags,
                         More... more) {
  CUgraphExec made{};
  const auto r = make(out ? &made : nullptr, graph(of), more...);
  if (!succeeded(r) || !out) return r;
  *out = executable(made, (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0, make);
  nccl::executable_is(made, graph(of));
  return r;
}

template <class F>
auto instantiate(RealFunction<F> make, CUgraphExec* out, CUgraph of, unsigned long long flags) {
  rt::Call call;
  return instantiate_in_call(make, out, of, flags, flags);
}

inline CUstream& upload_in(cudaGraphInstantiateParams& p) { return p.uploadStream; }
inline CUstream& upload_in(CUDA_GRAPH_INSTANTIATE_PARAMS& p) { return p.hUploadStream; }
inline Node& wrong_in(cudaGraphInstantiateParams& p) { return p.errNode_out; }
inline Node& wrong_in(CUDA_GRAPH_INSTANTIATE_PARAMS& p) { return p.hErrNode_out; }

template <class F, class Params>
auto instantiate_with(RealFunction<F> make, CUgraphExec* out, CUgraph of, Params* params) {
  rt::Call call;
  if (!params) return make(nullptr, nullptr, nullptr);
  Params p = *params;
  upload_in(p) = stream(upload_in(p));
  const auto r = instantiate_in_call(make, out, of, p.flags, &p);
  params->result_out = p.result_out;
  const bool names_a_node = wrong_in(p) && !succeeded(r);
  wrong_in(*params) = names_a_node ? node_of(rt::word_of(of), wrong_in(p), make) : nullptr;
  return r;
}

template <class F>
auto destroy_executable(CUgraphExec of, RealFunction<F> destroy) {
  rt::Call call;
  return end_object(word_of_executable(rt::word_of(of)), exec(of), destroy);
}

template <class F, class Info>
auto update_executable(RealFunction<F> update, CUgraphExec of, CUgraph from, Info* result) {
  rt::Call call;
  const auto r = update(exec(of), graph(from), result);
  if (result) {
    result->errorNode = node_of(rt::word_of(from), result->errorNode, update);
    result->errorFromNode = known_or_real(result->errorFromNode, kind::cudaGraphNode);
  }
  if (succeeded(r)) nccl::executable_is(exec(of), graph(from));
  return r;
}

template <class Result>
Result launch(CUgraphExec what, CUstream on, RealFunction<Result(CUgraphExec, CUstream)> launch_it) {
  rt::Call call;
  const CUgraphExec real = exec(what);
  if (!begin_launch(real)) return static_cast<Result>(rt::kCallAgain);
  const Result r = launch_it(real, stream(on));
  end_launch(real, succeeded(r));
  return r;
}

// --- Contents of a graph. `edges`: the array of the edges' data, where the function has one.

template <class F>
auto list_nodes(RealFunction<F> list, CUgraph of, Node* nodes, size_t* n) {
  rt::Call call;
  const auto r = list(graph(of), nodes, n);
  if (succeeded(r)) nodes_of(rt::word_of(of), nodes, n, list);
  return r;
}
template <class F, class... Edges>
auto list_edges(RealFunction<F> list, CUgraph of, Node* from, Node* to, size_t* n, Edges... edges) {
  rt::Call call;
  const auto r = list(graph(of), from, to, edges..., n);
  if (!succeeded(r)) return r;
  nodes_of(rt::word_of(of), from, n, list);
  nodes_of(rt::word_of(of), to, n, list);
  return r;
}
template <class F, class... Edges>
auto list_neighbours(RealFunction<F> list, Node of, Node* nodes, size_t* n, Edges... edges) {
  rt::Call call;
  const auto r = list(node(of), nodes, edges..., n);
  if (succeeded(r)) nodes_of(graph_of(rt::word_of(of)), nodes, n, list);
  return r;
}

template <class F>
auto create_user_object(RealFunction<F> create, CUuserObject* out, void* data, CUhostFn destroy,
                        unsigned count, unsigned flags) {
  rt::Call call;
  if (!out || !destroy) return create(out, data, destroy, count, flags);
  Destructor* mine = destructor(destroy, data);
  CUuserObject made{};
  const auto r = create(&made, mine, call_destructor, count, flags);
  if (!succeeded(r)) {
    drop(mine);
    return r;
  }
  *out = new_handle(made, kind::cudaUserObject, create);
  destructor_is_of(mine, rt::word_of(*out));
  return r;
}

}  // namespace cropdl::cuda
