// Functions about nodes of graphs. translate() knows a structure with a node's parameters, in all its
// versions, by its members. See graphs.h.
#include <concepts>
#include <cstdlib>
#include <optional>

#include "interpose/cuda/lower/callbacks.h"
#include "interpose/cuda/lower/graphs.h"
#include "interpose/cuda/lower/launch_attributes.h"
#include "interpose/cuda/lower/nccl/captured.h"

using namespace cropdl::cuda;

namespace {

// Puts the library's handles and functions into a copy of the program's structure.
struct ToReal {
  template <class H>
  H handle(H h, uint32_t kind) const {
    return rt::real(h, kind);
  }
  // The program's own stub, or a kernel's handle.
  void* kernel(void* f) const {
    rt::use_code(f);
    return rt::handle_of<void*>(rt::real_word(rt::word_of(f)));
  }
  CUfunction kernel(CUfunction f) const { return rt::real(f, kind::cudaFunction); }
  void host(HostNode& n) const { host_node(n); }
};
// Puts the program's into a structure of the library.
struct ToProgram {
  template <class H>
  H handle(H h, uint32_t kind) const {
    return known_or_real(h, kind);
  }
  void* kernel(void* f) const { return known_or_real(f, kind::cudaKernel); }
  // A kernel's handle may stand in place of a function.
  CUfunction kernel(CUfunction f) const {
    const CUfunction function = known_or_real(f, kind::cudaFunction);
    return function != f ? function : known_or_real(f, kind::cudaKernel);
  }
  void host(HostNode& n) const { program_host_node(n); }
};

CUcontext real_context(CUcontext c) { return rt::real(c, kind::cudaContext); }

// Only the driver's structure of any node has contexts.
void contexts_to_real(cudaGraphNodeParams&) {}
void contexts_to_real(CUgraphNodeParams& p) {
  if (p.type == CU_GRAPH_NODE_TYPE_MEMCPY) p.memcpy.copyCtx = real_context(p.memcpy.copyCtx);
  if (p.type == CU_GRAPH_NODE_TYPE_MEMSET) p.memset.ctx = real_context(p.memset.ctx);
  if (p.type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) p.memOp.ctx = real_context(p.memOp.ctx);
  if (p.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) p.conditional.ctx = real_context(p.conditional.ctx);
}
static_assert(int{cudaGraphNodeTypeKernel} == int{CU_GRAPH_NODE_TYPE_KERNEL} &&
              int{cudaGraphNodeTypeMemcpy} == int{CU_GRAPH_NODE_TYPE_MEMCPY} &&
              int{cudaGraphNodeTypeHost} == int{CU_GRAPH_NODE_TYPE_HOST} &&
              int{cudaGraphNodeTypeGraph} == int{CU_GRAPH_NODE_TYPE_GRAPH} &&
              int{cudaGraphNodeTypeWaitEvent} == int{CU_GRAPH_NODE_TYPE_WAIT_EVENT} &&
              int{cudaGraphNodeTypeEventRecord} == int{CU_GRAPH_NODE_TYPE_EVENT_RECORD} &&
              int{cudaGraphNodeTypeMemAlloc} == int{CU_GRAPH_NODE_TYPE_MEM_ALLOC} &&
              int{cudaGraphNodeTypeConditional} == int{CU_GRAPH_NODE_TYPE_CONDITIONAL} &&
              int{cudaGraphChildGraphOwnershipMove} == int{CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE});

template <class To, class P>
void translate(To to, P& p) {
  if constexpr (requires { p.kernelParams; }) {
    p.func = to.kernel(p.func);
    if constexpr (requires { p.kern; }) {
      p.kern = to.handle(p.kern, kind::cudaKernel);
      p.ctx = to.handle(p.ctx, kind::cudaContext);
    }
  } else if constexpr (requires { p.srcArray; }) {  // a copy
    p.srcArray = to.handle(p.srcArray, kind::cudaArray);
    p.dstArray = to.handle(p.dstArray, kind::cudaArray);
  } else if constexpr (requires { p.userData; }) {  // a host function
    HostNode n{p.fn, p.userData};
    to.host(n);
    p = {n.function, n.data};
  } else if constexpr (std::same_as<P, CUDA_BATCH_MEM_OP_NODE_PARAMS>) {
    p.ctx = to.handle(p.ctx, kind::cudaContext);
  } else {  // any node; no call returns one
    static_assert(std::same_as<To, ToReal>);
    contexts_to_real(p);
    const int type = static_cast<int>(p.type);
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) translate(to, p.kernel);
    if (type == CU_GRAPH_NODE_TYPE_MEMCPY) translate(to, p.memcpy.copyParams);
    if (type == CU_GRAPH_NODE_TYPE_HOST) translate(to, p.host);
    if (type == CU_GRAPH_NODE_TYPE_GRAPH) p.graph.graph = graph(p.graph.graph);
    if (type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) p.eventWait.event = event(p.eventWait.event);
    if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) p.eventRecord.event = event(p.eventRecord.event);
  }
}

// A copy of the program's structure with the library's handles; null for null.
template <class P>
class RealParams {
 public:
  explicit RealParams(const P* from) {
    if (from) translate(ToReal{}, its_.emplace(*from));
  }
  P* get() { return its_ ? &*its_ : nullptr; }

 private:
  std::optional<P> its_;
};

// --- Adding nodes. `more`: what the library gets after the dependencies.

constexpr const char* kGraphsMemory = "a graph allocates memory of the driver's";

template <class F, class... More>
auto add(RealFunction<F> of, Node* out, CUgraph to, const Node* dependencies, size_t n, More... more) {
  Node real{};
  const rt::Reals<Node> reals(dependencies, n, kind::cudaGraphNode);
  const auto r = of(out ? &real : nullptr, graph(to), reals.data(), more...);
  if (!succeeded(r) || !out) return r;
  *out = new_handle(real, kind::cudaGraphNode, of);
  rt::ends_with(rt::word_of(*out), rt::word_of(to));
  return r;
}

template <class F, class P, std::same_as<CUcontext>... Contexts>
auto add_node(RealFunction<F> of, Node* out, CUgraph to, const Node* dependencies, size_t n, const P* params,
              Contexts... contexts) {
  rt::Call call;
  RealParams<P> p(params);
  return add(of, out, to, dependencies, n, n, p.get(), real_context(contexts)...);
}

template <class F>
auto add_child_graph(RealFunction<F> of, Node* out, CUgraph to, const Node* dependencies, size_t n,
                     CUgraph child) {
  rt::Call call;
  const auto r = add(of, out, to, dependencies, n, n, graph(child));
  if (succeeded(r)) nccl::graph_takes(graph(to), graph(child));
  return r;
}

template <class F, class P>
auto add_allocation(RealFunction<F> of, Node* out, CUgraph to, const Node* dependencies, size_t n,
                    P* params) {
  rt::Call call;
  rt::mark_unsaved(of.library, of.function, kGraphsMemory);
  return add(of, out, to, dependencies, n, n, params);
}

// Valid as long as the process: the program gets the array as the library's.
CUgraph* bodies_for_program(CUgraph* bodies, unsigned n, uint64_t node, Maker m) {
  auto* theirs = static_cast<CUgraph*>(calloc(size_t{n} + 1, sizeof(CUgraph)));
  for (unsigned i = 0; theirs && i < n; ++i) {
    theirs[i] = known(bodies[i], kind::cudaGraph, m);
    rt::ends_with(rt::word_of(theirs[i]), node);
  }
  return theirs;
}

// `edges`: the array of the edges' data, where the function has one.
template <class F, class P, class... Edges>
auto add_any_node(RealFunction<F> of, Node* out, CUgraph to, const Node* dependencies, size_t n, P* params,
                  Edges... edges) {
  rt::Call call;
  RealParams<P> real(params);
  P* p = real.get();
  const int type = p ? static_cast<int>(p->type) : -1;
  if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) rt::mark_unsaved(of.library, of.function, kGraphsMemory);
  const auto r = add(of, out, to, dependencies, n, edges..., n, p);
  if (!succeeded(r) || !p || !out) return r;
  const uint64_t made = rt::word_of(*out);
  if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) params->alloc.dptr = p->alloc.dptr;
  if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL && p->conditional.phGraph_out)
    params->conditional.phGraph_out =
        bodies_for_program(p->conditional.phGraph_out, p->conditional.size, made, of);
  if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
    if (static_cast<int>(p->graph.ownership) == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
      rt::ends_with(rt::word_of(params->graph.graph), made);
    nccl::graph_takes(graph(to), p->graph.graph);
  }
  return r;
}

template <class F, class Edge, class P>
auto add_any_node(RealFunction<F> of, Node* out, CUgraph to, const Node* dependencies, const Edge* edges,
                  size_t n, P* params) {
  return add_any_node(of, out, to, dependencies, n, params, edges);
}

// --- Querying and changing nodes.

template <class F, class P>
auto get_node(RealFunction<F> get, Node of, P* params) {
  rt::Call call;
  const auto r = get(node(of), params);
  if (succeeded(r) && params) translate(ToProgram{}, *params);
  return r;
}
template <class F, class P>
auto set_node(RealFunction<F> set, Node of, const P* params) {
  rt::Call call;
  return set(node(of), RealParams<P>(params).get());
}
template <class F, class P, std::same_as<CUcontext>... Contexts>
auto set_node(RealFunction<F> set, CUgraphExec in, Node of, const P* params, Contexts... contexts) {
  rt::Call call;
  return set(exec(in), node(of), RealParams<P>(params).get(), real_context(contexts)...);
}

template <class F, class Id, class Value>
auto get_node_attribute(RealFunction<F> get, Node of, Id id, Value* value) {
  rt::Call call;
  const auto r = get(node(of), id, value);
  if (CUevent* its = succeeded(r) && value ? event_in(id, *value) : nullptr)
    *its = known_or_real(*its, kind::cudaEvent);
  return r;
}
template <class F, class Id, class Value>
auto set_node_attribute(RealFunction<F> set, Node of, Id id, const Value* value) {
  rt::Call call;
  auto v = value ? *value : Value{};
  if (CUevent* its = value ? event_in(id, v) : nullptr) *its = event(*its);
  return set(node(of), id, value ? &v : nullptr);
}

}  // namespace

extern "C" {

CROPDL_CALLS(add_node)
CROPDL_CALLS(add_child_graph)
CROPDL_CALLS(add_allocation)
CROPDL_CALLS(add_any_node)
CROPDL_CALLS(get_node)
CROPDL_CALLS(set_node)
CROPDL_CALLS(get_node_attribute)
CROPDL_CALLS(set_node_attribute)

}  // extern "C"
