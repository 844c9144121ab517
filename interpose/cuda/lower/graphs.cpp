// Functions about whole graphs. See graphs.h.
#include "interpose/cuda/lower/graphs.h"

#include "interpose/cuda/lower/callbacks.h"
#include "interpose/cuda/lower/nccl/captured.h"
#include "interpose/one_abi/held.h"

using namespace cropdl::cuda;

namespace {

static_assert(static_cast<int>(CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) ==
              cudaGraphInstantiateFlagDeviceLaunch);

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
auto destroy_graph(RealFunction<F> destroy, CUgraph of) {
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
  const CUgraphExec its = new_handle(made, kind::cudaGraphExec, make);
  // Kernels read the handle of a graph that they launch, so the program gets the real one.
  *out = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0 ? made : its;
  nccl::executable_is(made, graph(of));
  return r;
}

template <class F>
auto instantiate_graph(RealFunction<F> make, CUgraphExec* out, CUgraph of, unsigned long long flags) {
  rt::Call call;
  return instantiate_in_call(make, out, of, flags, flags);
}

template <class F>
auto instantiate_graph(RealFunction<F> make, CUgraphExec* out, CUgraph of, Node* wrong, char* log,
                       size_t bytes) {
  rt::Call call;
  if (wrong) *wrong = nullptr;
  const auto r = instantiate_in_call(make, out, of, 0, wrong, log, bytes);
  if (wrong && *wrong) *wrong = node_of(rt::word_of(of), *wrong, make);
  return r;
}

CUstream& upload_in(cudaGraphInstantiateParams& p) { return p.uploadStream; }
CUstream& upload_in(CUDA_GRAPH_INSTANTIATE_PARAMS& p) { return p.hUploadStream; }
Node& wrong_in(cudaGraphInstantiateParams& p) { return p.errNode_out; }
Node& wrong_in(CUDA_GRAPH_INSTANTIATE_PARAMS& p) { return p.hErrNode_out; }

template <class F, class Params>
auto instantiate_graph(RealFunction<F> make, CUgraphExec* out, CUgraph of, Params* params) {
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
auto destroy_executable(RealFunction<F> destroy, CUgraphExec of) {
  rt::Call call;
  const uint64_t word = rt::word_of(of);
  return end_object(rt::is_virtual(word) ? word : rt::virtual_of(word, kind::cudaGraphExec), exec(of),
                    destroy);
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

template <class F>
auto update_executable(RealFunction<F> update, CUgraphExec of, CUgraph from, Node* wrong,
                       CUgraphExecUpdateResult* result) {
  rt::Call call;
  if (wrong) *wrong = nullptr;
  const auto r = update(exec(of), graph(from), wrong, result);
  if (wrong && *wrong) *wrong = node_of(rt::word_of(from), *wrong, update);
  if (succeeded(r)) nccl::executable_is(exec(of), graph(from));
  return r;
}

template <class Result>
Result launch_graph(RealFunction<Result(CUgraphExec, CUstream)> launch, CUgraphExec what, CUstream on) {
  rt::Call call;
  const CUgraphExec real = exec(what);
  const bool calls = any_host_node.load(std::memory_order_relaxed);
  auto r = static_cast<Result>(rt::kCallAgain);
  if (calls && !begin_calling_graph()) return r;
  if (nccl::begin_launch(real)) {
    r = launch(real, stream(on));
    nccl::end_launch(real, succeeded(r));
  }
  if (calls) end_calling_graph();
  return r;
}

// --- Contents of a graph.

void nodes_of(uint64_t graph, Node* nodes, const size_t* count, Maker m) {
  for (size_t i = 0; nodes && count && i < *count; ++i) nodes[i] = node_of(graph, nodes[i], m);
}

template <class F>
auto list_nodes(RealFunction<F> list, CUgraph of, Node* nodes, size_t* n) {
  rt::Call call;
  const auto r = list(graph(of), nodes, n);
  if (succeeded(r)) nodes_of(rt::word_of(of), nodes, n, list);
  return r;
}

// The number of what is listed: behind the array of the edges' data, where the function has one.
size_t* number_in(size_t* n) { return n; }
template <class Edge>
size_t* number_in(Edge*, size_t* n) {
  return n;
}

template <class F, class... EdgesAndNumber>
auto list_edges(RealFunction<F> list, CUgraph of, Node* from, Node* to, EdgesAndNumber... rest) {
  rt::Call call;
  const auto r = list(graph(of), from, to, rest...);
  if (!succeeded(r)) return r;
  nodes_of(rt::word_of(of), from, number_in(rest...), list);
  nodes_of(rt::word_of(of), to, number_in(rest...), list);
  return r;
}
template <class F, class... EdgesAndNumber>
auto list_neighbours(RealFunction<F> list, Node of, Node* nodes, EdgesAndNumber... rest) {
  rt::Call call;
  const auto r = list(node(of), nodes, rest...);
  if (succeeded(r)) nodes_of(rt::parent_of(rt::word_of(of)), nodes, number_in(rest...), list);
  return r;
}

// --- User objects: threads of the library call their destructors, functions of the program. A user object
// refuses checkpoints until its destructor has run.

struct Destructor {
  HostFunction* function;
  uint64_t object;
};

void drop(Destructor* d) {
  forget_host_function(d->function);
  delete d;
}

void call_destructor(void* of) {
  auto* d = static_cast<Destructor*>(of);
  call_host_function(d->function);
  rt::forget_word(d->object);
  drop(d);
}

template <class F>
auto create_user_object(RealFunction<F> create, CUuserObject* out, void* data, CUhostFn destroy,
                        unsigned count, unsigned flags) {
  rt::Call call;
  if (!out || !destroy) return create(out, data, destroy, count, flags);
  auto* mine = new Destructor{host_function(destroy, data), 0};
  CUuserObject made{};
  const auto r = create(&made, mine, call_destructor, count, flags);
  if (!succeeded(r)) {
    drop(mine);
    return r;
  }
  *out = new_handle(made, kind::cudaUserObject, create);
  mine->object = rt::word_of(*out);
  return r;
}

}  // namespace

extern "C" {

CROPDL_CALLS(clone_graph)
CROPDL_CALLS(destroy_graph)
CROPDL_CALLS(instantiate_graph)
CROPDL_CALLS(destroy_executable)
CROPDL_CALLS(update_executable)
CROPDL_CALLS(launch_graph)
CROPDL_CALLS(list_nodes)
CROPDL_CALLS(list_edges)
CROPDL_CALLS(list_neighbours)
CROPDL_CALLS(create_user_object)

}  // extern "C"
