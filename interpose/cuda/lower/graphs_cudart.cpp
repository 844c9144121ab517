// The runtime's functions about graphs and captures. See graphs.h.
#include "interpose/cuda/lower/graph_calls.h"
#include "interpose/gen/cudart/undeclared.h"

namespace rt = cropdl::one_abi;
namespace cudart = cropdl::seam::cudart;
namespace kind = rt::kind;
namespace nccl = cropdl::cuda::nccl;
using namespace cropdl::cuda;

#define MAKER(name) \
  Maker { kCudart, cudart::kFn_##name }

namespace {

cudaArray_t array(cudaArray_t a) { return rt::real(a, kind::cudaArray); }
// The program's own stub, or a kernel's handle.
void* kernel(void* f) {
  rt::use_code(f);
  return rt::handle_of<void*>(rt::real_word(rt::word_of(f)));
}

// --- Structures. `real_of`: for the library; `theirs_of`: for the program.

cudaKernelNodeParams real_of(cudaKernelNodeParams p) {
  p.func = kernel(p.func);
  return p;
}
void theirs_of(cudaKernelNodeParams& p) { p.func = known_or_real(p.func, kind::cudaKernel); }
cudaMemcpy3DParms real_of(cudaMemcpy3DParms p) {
  p.srcArray = array(p.srcArray);
  p.dstArray = array(p.dstArray);
  return p;
}
void theirs_of(cudaMemcpy3DParms& p) {
  p.srcArray = known_or_real(p.srcArray, kind::cudaArray);
  p.dstArray = known_or_real(p.dstArray, kind::cudaArray);
}
cudaKernelNodeAttrValue real_of(cudaLaunchAttributeID id, cudaKernelNodeAttrValue v) {
  if (id == cudaLaunchAttributeProgrammaticEvent)
    v.programmaticEvent.event = event(v.programmaticEvent.event);
  if (id == cudaLaunchAttributeLaunchCompletionEvent)
    v.launchCompletionEvent.event = event(v.launchCompletionEvent.event);
  return v;
}
void theirs_of(cudaLaunchAttributeID id, cudaKernelNodeAttrValue& v) {
  if (id == cudaLaunchAttributeProgrammaticEvent)
    v.programmaticEvent.event = known_or_real(v.programmaticEvent.event, kind::cudaEvent);
  if (id == cudaLaunchAttributeLaunchCompletionEvent)
    v.launchCompletionEvent.event = known_or_real(v.launchCompletionEvent.event, kind::cudaEvent);
}

void to_real(cudaGraphNodeParams& p) {
  switch (p.type) {
    case cudaGraphNodeTypeKernel:
      p.kernel.func = kernel(p.kernel.func);
      break;
    case cudaGraphNodeTypeMemcpy:
      p.memcpy.copyParams = real_of(p.memcpy.copyParams);
      break;
    case cudaGraphNodeTypeHost:
      host_of(p.host);
      break;
    case cudaGraphNodeTypeGraph:
      p.graph.graph = graph(p.graph.graph);
      break;
    case cudaGraphNodeTypeWaitEvent:
      p.eventWait.event = event(p.eventWait.event);
      break;
    case cudaGraphNodeTypeEventRecord:
      p.eventRecord.event = event(p.eventRecord.event);
      break;
    default:
      break;
  }
}

cudaError_t instantiate_with(Maker m, cudaGraphExec_t* out, cudaGraph_t of,
                             cudaGraphInstantiateParams* params,
                             decltype(cudaGraphInstantiateWithParams)* make) {
  if (!params) return make(nullptr, nullptr, nullptr);
  cudaGraphInstantiateParams p = *params;
  p.uploadStream = stream(p.uploadStream);
  const cudaError_t r = instantiate(m, out, of, p.flags, [&](auto* e, auto g) { return make(e, g, &p); });
  params->result_out = p.result_out;
  params->errNode_out =
      p.errNode_out && r != cudaSuccess ? node_of(rt::word_of(of), p.errNode_out, m) : nullptr;
  return r;
}

// --- Captures.

struct RuntimeCalls {
  using Result = cudaError_t;
  using Status = cudaStreamCaptureStatus;
  using Id = unsigned long long;
  using Edge = cudaGraphEdgeData;
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

}  // namespace

extern "C" {

// --- Graphs.

cudaError_t lower_cudaGraphClone(cudaGraph_t* out, cudaGraph_t original) {
  return clone_graph(MAKER(cudaGraphClone), out, original, CROPDL_CUDART(cudaGraphClone));
}
cudaError_t lower_cudaGraphDestroy(cudaGraph_t of) {
  return destroy_graph(of, CROPDL_CUDART(cudaGraphDestroy));
}

cudaError_t lower_cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t of, unsigned long long flags) {
  return instantiate(MAKER(cudaGraphInstantiate), out, of, flags,
                     [&](auto* e, auto g) { return CROPDL_CUDART(cudaGraphInstantiate)(e, g, flags); });
}
cudaError_t lower_cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t of,
                                                unsigned long long flags) {
  return instantiate(MAKER(cudaGraphInstantiateWithFlags), out, of, flags, [&](auto* e, auto g) {
    return CROPDL_CUDART(cudaGraphInstantiateWithFlags)(e, g, flags);
  });
}

cudaError_t lower_cudaGraphInstantiateWithParams(cudaGraphExec_t* out, cudaGraph_t of,
                                                 cudaGraphInstantiateParams* params) {
  return instantiate_with(MAKER(cudaGraphInstantiateWithParams), out, of, params,
                          CROPDL_CUDART(cudaGraphInstantiateWithParams));
}
cudaError_t lower_cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t* out, cudaGraph_t of,
                                                      cudaGraphInstantiateParams* params) {
  return instantiate_with(MAKER(cudaGraphInstantiateWithParams_ptsz), out, of, params,
                          CROPDL_CUDART_PTSZ(cudaGraphInstantiateWithParams));
}

cudaError_t lower_cudaGraphExecDestroy(cudaGraphExec_t of) {
  return destroy_executable(of, CROPDL_CUDART(cudaGraphExecDestroy));
}

cudaError_t lower_cudaGraphExecUpdate(cudaGraphExec_t of, cudaGraph_t from,
                                      cudaGraphExecUpdateResultInfo* result) {
  rt::Call call;
  const cudaError_t r = CROPDL_CUDART(cudaGraphExecUpdate)(exec(of), graph(from), result);
  if (result) {
    const Maker m = MAKER(cudaGraphExecUpdate);
    result->errorNode = node_of(rt::word_of(from), result->errorNode, m);
    result->errorFromNode = known_or_real(result->errorFromNode, kind::cudaGraphNode);
  }
  if (r == cudaSuccess) nccl::executable_is(exec(of), graph(from));
  return r;
}

cudaError_t lower_cudaGraphLaunch(cudaGraphExec_t what, cudaStream_t on) {
  return launch(what, on, CROPDL_CUDART(cudaGraphLaunch));
}
cudaError_t lower_cudaGraphLaunch_ptsz(cudaGraphExec_t what, cudaStream_t on) {
  return launch(what, on, CROPDL_CUDART_PTSZ(cudaGraphLaunch));
}

// --- Adding nodes.

cudaError_t lower_cudaGraphAddKernelNode(Node* out, cudaGraph_t to, const Node* dependencies, size_t n,
                                         const cudaKernelNodeParams* params) {
  rt::Call call;
  const auto p = params ? real_of(*params) : cudaKernelNodeParams{};
  return add_node(MAKER(cudaGraphAddKernelNode), out, to, dependencies, n, [&](auto* o, auto g, auto* d) {
    return CROPDL_CUDART(cudaGraphAddKernelNode)(o, g, d, n, params ? &p : nullptr);
  });
}
cudaError_t lower_cudaGraphAddMemcpyNode(Node* out, cudaGraph_t to, const Node* dependencies, size_t n,
                                         const cudaMemcpy3DParms* params) {
  rt::Call call;
  const auto p = params ? real_of(*params) : cudaMemcpy3DParms{};
  return add_node(MAKER(cudaGraphAddMemcpyNode), out, to, dependencies, n, [&](auto* o, auto g, auto* d) {
    return CROPDL_CUDART(cudaGraphAddMemcpyNode)(o, g, d, n, params ? &p : nullptr);
  });
}
cudaError_t lower_cudaGraphAddHostNode(Node* out, cudaGraph_t to, const Node* dependencies, size_t n,
                                       const cudaHostNodeParams* params) {
  rt::Call call;
  auto p = params ? *params : cudaHostNodeParams{};
  host_of(p);
  return add_node(MAKER(cudaGraphAddHostNode), out, to, dependencies, n, [&](auto* o, auto g, auto* d) {
    return CROPDL_CUDART(cudaGraphAddHostNode)(o, g, d, n, params ? &p : nullptr);
  });
}
cudaError_t lower_cudaGraphAddChildGraphNode(Node* out, cudaGraph_t to, const Node* dependencies, size_t n,
                                             cudaGraph_t child) {
  rt::Call call;
  const auto r =
      add_node(MAKER(cudaGraphAddChildGraphNode), out, to, dependencies, n, [&](auto* o, auto g, auto* d) {
        return CROPDL_CUDART(cudaGraphAddChildGraphNode)(o, g, d, n, graph(child));
      });
  if (r == cudaSuccess) nccl::graph_takes(graph(to), graph(child));
  return r;
}
cudaError_t lower_cudaGraphAddMemAllocNode(Node* out, cudaGraph_t to, const Node* dependencies, size_t n,
                                           cudaMemAllocNodeParams* params) {
  rt::Call call;
  rt::mark_unsaved(kCudart, cudart::kFn_cudaGraphAddMemAllocNode, kGraphsMemory);
  return add_node(MAKER(cudaGraphAddMemAllocNode), out, to, dependencies, n, [&](auto* o, auto g, auto* d) {
    return CROPDL_CUDART(cudaGraphAddMemAllocNode)(o, g, d, n, params);
  });
}
cudaError_t lower_cudaGraphAddNode(Node* out, cudaGraph_t to, const Node* dependencies,
                                   const cudaGraphEdgeData* edges, size_t n, cudaGraphNodeParams* params) {
  rt::Call call;
  const Maker m = MAKER(cudaGraphAddNode);
  auto p = params ? *params : cudaGraphNodeParams{};
  if (params) to_real(p);
  if (params && p.type == cudaGraphNodeTypeMemAlloc) rt::mark_unsaved(kCudart, m.function, kGraphsMemory);
  const auto r = add_node(m, out, to, dependencies, n, [&](auto* o, auto g, auto* d) {
    return CROPDL_CUDART(cudaGraphAddNode)(o, g, d, edges, n, params ? &p : nullptr);
  });
  if (r != cudaSuccess || !params || !out) return r;
  const uint64_t made = rt::word_of(*out);
  if (p.type == cudaGraphNodeTypeMemAlloc) params->alloc.dptr = p.alloc.dptr;
  if (p.type == cudaGraphNodeTypeConditional && p.conditional.phGraph_out) {
    auto* bodies = reinterpret_cast<cudaGraph_t*>(kept_array(p.conditional.size));
    for (unsigned i = 0; bodies && i < p.conditional.size; ++i) {
      bodies[i] = known(p.conditional.phGraph_out[i], kind::cudaGraph, m);
      rt::ends_with(rt::word_of(bodies[i]), made);
    }
    params->conditional.phGraph_out = bodies;
  }
  if (p.type == cudaGraphNodeTypeGraph) {
    if (p.graph.ownership == cudaGraphChildGraphOwnershipMove)
      rt::ends_with(rt::word_of(params->graph.graph), made);
    nccl::graph_takes(graph(to), p.graph.graph);
  }
  return r;
}

// --- Querying and changing nodes.

cudaError_t lower_cudaGraphKernelNodeGetParams(Node of, cudaKernelNodeParams* params) {
  rt::Call call;
  const cudaError_t r = CROPDL_CUDART(cudaGraphKernelNodeGetParams)(node(of), params);
  if (r == cudaSuccess && params) theirs_of(*params);
  return r;
}
cudaError_t lower_cudaGraphKernelNodeSetParams(Node of, const cudaKernelNodeParams* params) {
  rt::Call call;
  const auto p = params ? real_of(*params) : cudaKernelNodeParams{};
  return CROPDL_CUDART(cudaGraphKernelNodeSetParams)(node(of), params ? &p : nullptr);
}
cudaError_t lower_cudaGraphExecKernelNodeSetParams(cudaGraphExec_t in, Node of,
                                                   const cudaKernelNodeParams* params) {
  rt::Call call;
  const auto p = params ? real_of(*params) : cudaKernelNodeParams{};
  return CROPDL_CUDART(cudaGraphExecKernelNodeSetParams)(exec(in), node(of), params ? &p : nullptr);
}
cudaError_t lower_cudaGraphKernelNodeGetAttribute(Node of, cudaLaunchAttributeID id,
                                                  cudaKernelNodeAttrValue* value) {
  rt::Call call;
  const cudaError_t r = CROPDL_CUDART(cudaGraphKernelNodeGetAttribute)(node(of), id, value);
  if (r == cudaSuccess && value) theirs_of(id, *value);
  return r;
}
cudaError_t lower_cudaGraphKernelNodeSetAttribute(Node of, cudaLaunchAttributeID id,
                                                  const cudaKernelNodeAttrValue* value) {
  rt::Call call;
  const auto v = value ? real_of(id, *value) : cudaKernelNodeAttrValue{};
  return CROPDL_CUDART(cudaGraphKernelNodeSetAttribute)(node(of), id, value ? &v : nullptr);
}
cudaError_t lower_cudaGraphMemcpyNodeGetParams(Node of, cudaMemcpy3DParms* params) {
  rt::Call call;
  const cudaError_t r = CROPDL_CUDART(cudaGraphMemcpyNodeGetParams)(node(of), params);
  if (r == cudaSuccess && params) theirs_of(*params);
  return r;
}
cudaError_t lower_cudaGraphMemcpyNodeSetParams(Node of, const cudaMemcpy3DParms* params) {
  rt::Call call;
  const auto p = params ? real_of(*params) : cudaMemcpy3DParms{};
  return CROPDL_CUDART(cudaGraphMemcpyNodeSetParams)(node(of), params ? &p : nullptr);
}
cudaError_t lower_cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t in, Node of,
                                                   const cudaMemcpy3DParms* params) {
  rt::Call call;
  const auto p = params ? real_of(*params) : cudaMemcpy3DParms{};
  return CROPDL_CUDART(cudaGraphExecMemcpyNodeSetParams)(exec(in), node(of), params ? &p : nullptr);
}
cudaError_t lower_cudaGraphHostNodeGetParams(Node of, cudaHostNodeParams* params) {
  rt::Call call;
  const cudaError_t r = CROPDL_CUDART(cudaGraphHostNodeGetParams)(node(of), params);
  if (r != cudaSuccess || !params) return r;
  HostNode n{params->fn, params->userData};
  program_host_node(n);
  *params = {n.function, n.data};
  return r;
}
cudaError_t lower_cudaGraphHostNodeSetParams(Node of, const cudaHostNodeParams* params) {
  rt::Call call;
  auto p = params ? *params : cudaHostNodeParams{};
  host_of(p);
  return CROPDL_CUDART(cudaGraphHostNodeSetParams)(node(of), params ? &p : nullptr);
}
cudaError_t lower_cudaGraphExecHostNodeSetParams(cudaGraphExec_t in, Node of,
                                                 const cudaHostNodeParams* params) {
  rt::Call call;
  auto p = params ? *params : cudaHostNodeParams{};
  host_of(p);
  return CROPDL_CUDART(cudaGraphExecHostNodeSetParams)(exec(in), node(of), params ? &p : nullptr);
}
cudaError_t lower_cudaGraphNodeSetParams(Node of, cudaGraphNodeParams* params) {
  rt::Call call;
  auto p = params ? *params : cudaGraphNodeParams{};
  if (params) to_real(p);
  return CROPDL_CUDART(cudaGraphNodeSetParams)(node(of), params ? &p : nullptr);
}
cudaError_t lower_cudaGraphExecNodeSetParams(cudaGraphExec_t in, Node of, cudaGraphNodeParams* params) {
  rt::Call call;
  auto p = params ? *params : cudaGraphNodeParams{};
  if (params) to_real(p);
  return CROPDL_CUDART(cudaGraphExecNodeSetParams)(exec(in), node(of), params ? &p : nullptr);
}

// --- Contents of a graph.

cudaError_t lower_cudaGraphGetNodes(cudaGraph_t of, Node* nodes, size_t* n) {
  rt::Call call;
  const cudaError_t r = CROPDL_CUDART(cudaGraphGetNodes)(graph(of), nodes, n);
  if (r == cudaSuccess) nodes_of(rt::word_of(of), nodes, n, MAKER(cudaGraphGetNodes));
  return r;
}
cudaError_t lower_cudaGraphGetRootNodes(cudaGraph_t of, Node* nodes, size_t* n) {
  rt::Call call;
  const cudaError_t r = CROPDL_CUDART(cudaGraphGetRootNodes)(graph(of), nodes, n);
  if (r == cudaSuccess) nodes_of(rt::word_of(of), nodes, n, MAKER(cudaGraphGetRootNodes));
  return r;
}
cudaError_t lower_cudaGraphGetEdges(cudaGraph_t of, Node* from, Node* to, cudaGraphEdgeData* edges,
                                    size_t* n) {
  rt::Call call;
  const cudaError_t r = CROPDL_CUDART(cudaGraphGetEdges)(graph(of), from, to, edges, n);
  if (r != cudaSuccess) return r;
  nodes_of(rt::word_of(of), from, n, MAKER(cudaGraphGetEdges));
  nodes_of(rt::word_of(of), to, n, MAKER(cudaGraphGetEdges));
  return r;
}
cudaError_t lower_cudaGraphNodeGetDependencies(Node of, Node* nodes, cudaGraphEdgeData* edges, size_t* n) {
  rt::Call call;
  const cudaError_t r = CROPDL_CUDART(cudaGraphNodeGetDependencies)(node(of), nodes, edges, n);
  if (r == cudaSuccess) nodes_of(graph_of(rt::word_of(of)), nodes, n, MAKER(cudaGraphNodeGetDependencies));
  return r;
}
cudaError_t lower_cudaGraphNodeGetDependentNodes(Node of, Node* nodes, cudaGraphEdgeData* edges, size_t* n) {
  rt::Call call;
  const cudaError_t r = CROPDL_CUDART(cudaGraphNodeGetDependentNodes)(node(of), nodes, edges, n);
  if (r == cudaSuccess) nodes_of(graph_of(rt::word_of(of)), nodes, n, MAKER(cudaGraphNodeGetDependentNodes));
  return r;
}

// --- User objects.

cudaError_t lower_cudaUserObjectCreate(cudaUserObject_t* out, void* data, cudaHostFn_t destroy,
                                       unsigned count, unsigned flags) {
  rt::Call call;
  if (!out || !destroy) return CROPDL_CUDART(cudaUserObjectCreate)(out, data, destroy, count, flags);
  Destructor* mine = destructor(destroy, data);
  cudaUserObject_t made{};
  const cudaError_t r = CROPDL_CUDART(cudaUserObjectCreate)(&made, mine, call_destructor, count, flags);
  if (r != cudaSuccess) {
    drop(mine);
    return r;
  }
  const uint64_t word = rt::made_word(rt::word_of(made), kind::cudaUserObject, kCudart,
                                      cudart::kFn_cudaUserObjectCreate, nullptr);
  destructor_is_of(mine, word);
  *out = rt::handle_of<cudaUserObject_t>(word);
  return r;
}
// --- Captures.

cudaError_t lower_cudaStreamBeginCapture(cudaStream_t on, cudaStreamCaptureMode mode) {
  return begin_capture<RuntimeCalls, false>(MAKER(cudaStreamBeginCapture), on, true, [&](auto s) {
    return CROPDL_CUDART(cudaStreamBeginCapture)(s, mode);
  });
}
cudaError_t lower_cudaStreamBeginCapture_ptsz(cudaStream_t on, cudaStreamCaptureMode mode) {
  return begin_capture<RuntimeCalls, true>(MAKER(cudaStreamBeginCapture_ptsz), on, true, [&](auto s) {
    return CROPDL_CUDART_PTSZ(cudaStreamBeginCapture)(s, mode);
  });
}
cudaError_t lower_cudaStreamBeginCaptureToGraph(cudaStream_t on, cudaGraph_t to, const Node* nodes,
                                                const cudaGraphEdgeData* edges, size_t n,
                                                cudaStreamCaptureMode mode) {
  const rt::Reals<Node> reals(nodes, n, kind::cudaGraphNode);
  return begin_capture<RuntimeCalls, false>(MAKER(cudaStreamBeginCaptureToGraph), on, false, [&](auto s) {
    return CROPDL_CUDART(cudaStreamBeginCaptureToGraph)(s, graph(to), reals.data(), edges, n, mode);
  });
}
cudaError_t lower_cudaStreamBeginCaptureToGraph_ptsz(cudaStream_t on, cudaGraph_t to, const Node* nodes,
                                                     const cudaGraphEdgeData* edges, size_t n,
                                                     cudaStreamCaptureMode mode) {
  const rt::Reals<Node> reals(nodes, n, kind::cudaGraphNode);
  return begin_capture<RuntimeCalls, true>(MAKER(cudaStreamBeginCaptureToGraph_ptsz), on, false, [&](auto s) {
    return CROPDL_CUDART_PTSZ(cudaStreamBeginCaptureToGraph)(s, graph(to), reals.data(), edges, n, mode);
  });
}

cudaError_t lower_cudaStreamEndCapture(cudaStream_t on, cudaGraph_t* out) {
  return end_capture<RuntimeCalls, false>(on, out, MAKER(cudaStreamEndCapture));
}
cudaError_t lower_cudaStreamEndCapture_ptsz(cudaStream_t on, cudaGraph_t* out) {
  return end_capture<RuntimeCalls, true>(on, out, MAKER(cudaStreamEndCapture_ptsz));
}

cudaError_t lower_cudaStreamGetCaptureInfo(cudaStream_t on, cudaStreamCaptureStatus* status,
                                           unsigned long long* id, cudaGraph_t* out, const Node** nodes,
                                           const cudaGraphEdgeData** edges, size_t* n) {
  return capture_info<RuntimeCalls, false>(on, status, id, out, nodes, edges, n,
                                           MAKER(cudaStreamGetCaptureInfo));
}
cudaError_t lower_cudaStreamGetCaptureInfo_ptsz(cudaStream_t on, cudaStreamCaptureStatus* status,
                                                unsigned long long* id, cudaGraph_t* out, const Node** nodes,
                                                const cudaGraphEdgeData** edges, size_t* n) {
  return capture_info<RuntimeCalls, true>(on, status, id, out, nodes, edges, n,
                                          MAKER(cudaStreamGetCaptureInfo_ptsz));
}

}  // extern "C"

#undef MAKER
