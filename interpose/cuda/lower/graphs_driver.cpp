// The driver's functions about graphs and captures. See graphs.h.
#include "interpose/gen/driver/undeclared.h"
//
#include "interpose/cuda/lower/graph_calls.h"

namespace rt = cropdl::one_abi;
namespace driver = cropdl::seam::driver;
namespace kind = rt::kind;
namespace nccl = cropdl::cuda::nccl;
using namespace cropdl::cuda;

#define MAKER(name) \
  Maker { kDriver, driver::kFn_##name }

namespace {

CUarray array(CUarray a) { return rt::real(a, kind::cudaArray); }
CUcontext context(CUcontext c) { return rt::real(c, kind::cudaContext); }

void edges_of(CUgraph of, Node* from, Node* to, const size_t* n, Maker m) {
  nodes_of(rt::word_of(of), from, n, m);
  nodes_of(rt::word_of(of), to, n, m);
}

// --- Structures. `real_of`: for the library; `theirs_of`: for the program.

// A kernel may stand in place of a function. For all versions of the structure.
template <class P>
P real_kernel(P p) {
  p.func = rt::real(p.func, kind::cudaFunction);
  if constexpr (requires { p.kern; }) {
    p.kern = rt::real(p.kern, kind::cudaKernel);
    p.ctx = context(p.ctx);
  }
  return p;
}
template <class P>
void their_kernel(P& p) {
  p.func = function_or_kernel(p.func);
  if constexpr (requires { p.kern; }) {
    p.kern = known_or_real(p.kern, kind::cudaKernel);
    p.ctx = known_or_real(p.ctx, kind::cudaContext);
  }
}
CUDA_MEMCPY3D real_of(CUDA_MEMCPY3D p) {
  p.srcArray = array(p.srcArray);
  p.dstArray = array(p.dstArray);
  return p;
}
void theirs_of(CUDA_MEMCPY3D& p) {
  p.srcArray = known_or_real(p.srcArray, kind::cudaArray);
  p.dstArray = known_or_real(p.dstArray, kind::cudaArray);
}
CUDA_BATCH_MEM_OP_NODE_PARAMS real_operations(CUDA_BATCH_MEM_OP_NODE_PARAMS p) {
  p.ctx = context(p.ctx);
  return p;
}
CUkernelNodeAttrValue real_of(CUkernelNodeAttrID id, CUkernelNodeAttrValue v) {
  if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
    v.programmaticEvent.event = event(v.programmaticEvent.event);
  if (id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
    v.launchCompletionEvent.event = event(v.launchCompletionEvent.event);
  return v;
}
void theirs_of(CUkernelNodeAttrID id, CUkernelNodeAttrValue& v) {
  if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
    v.programmaticEvent.event = known_or_real(v.programmaticEvent.event, kind::cudaEvent);
  if (id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
    v.launchCompletionEvent.event = known_or_real(v.launchCompletionEvent.event, kind::cudaEvent);
}

void to_real(CUgraphNodeParams& p) {
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      p.kernel = real_kernel(p.kernel);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      p.memcpy.copyParams = real_of(p.memcpy.copyParams);
      p.memcpy.copyCtx = context(p.memcpy.copyCtx);
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      p.memset.ctx = context(p.memset.ctx);
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      p.memOp.ctx = context(p.memOp.ctx);
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      p.conditional.ctx = context(p.conditional.ctx);
      break;
    case CU_GRAPH_NODE_TYPE_HOST:
      host_of(p.host);
      break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      p.graph.graph = graph(p.graph.graph);
      break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      p.eventWait.event = event(p.eventWait.event);
      break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      p.eventRecord.event = event(p.eventRecord.event);
      break;
    default:
      break;
  }
}

template <class Call>
CUresult add_any(Maker m, Node* out, CUgraph to, const Node* dependencies, size_t n,
                 CUgraphNodeParams* params, Call add) {
  rt::Call call;
  auto p = params ? *params : CUgraphNodeParams{};
  if (params) to_real(p);
  if (params && p.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) rt::mark_unsaved(kDriver, m.function, kGraphsMemory);
  const auto r = add_node(m, out, to, dependencies, n,
                          [&](auto* o, auto g, auto* d) { return add(o, g, d, params ? &p : nullptr); });
  if (r != CUDA_SUCCESS || !params || !out) return r;
  const uint64_t made = rt::word_of(*out);
  if (p.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) params->alloc.dptr = p.alloc.dptr;
  if (p.type == CU_GRAPH_NODE_TYPE_CONDITIONAL && p.conditional.phGraph_out) {
    auto* bodies = reinterpret_cast<CUgraph*>(kept_array(p.conditional.size));
    for (unsigned i = 0; bodies && i < p.conditional.size; ++i) {
      bodies[i] = known(p.conditional.phGraph_out[i], kind::cudaGraph, m);
      rt::ends_with(rt::word_of(bodies[i]), made);
    }
    params->conditional.phGraph_out = bodies;
  }
  if (p.type == CU_GRAPH_NODE_TYPE_GRAPH) {
    if (p.graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
      rt::ends_with(rt::word_of(params->graph.graph), made);
    nccl::graph_takes(graph(to), p.graph.graph);
  }
  return r;
}

template <class Call>
CUresult instantiate_with_log(Maker m, CUgraphExec* out, CUgraph of, Node* wrong, Call make) {
  if (wrong) *wrong = nullptr;
  const CUresult r = instantiate(m, out, of, 0, make);
  if (wrong && *wrong) *wrong = node_of(rt::word_of(of), *wrong, m);
  return r;
}

CUresult instantiate_with(Maker m, CUgraphExec* out, CUgraph of, CUDA_GRAPH_INSTANTIATE_PARAMS* params,
                          decltype(cuGraphInstantiateWithParams)* make) {
  if (!params) return make(nullptr, nullptr, nullptr);
  CUDA_GRAPH_INSTANTIATE_PARAMS p = *params;
  p.hUploadStream = stream(p.hUploadStream);
  const CUresult r = instantiate(m, out, of, p.flags, [&](auto* e, auto g) { return make(e, g, &p); });
  params->result_out = p.result_out;
  params->hErrNode_out =
      p.hErrNode_out && r != CUDA_SUCCESS ? node_of(rt::word_of(of), p.hErrNode_out, m) : nullptr;
  return r;
}

// --- Captures.

struct DriverCalls {
  using Result = CUresult;
  using Status = CUstreamCaptureStatus;
  using Id = cuuint64_t;
  using Edge = CUgraphEdgeData;
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

}  // namespace

extern "C" {

// --- Graphs.

CUresult lower_cuGraphClone(CUgraph* out, CUgraph original) {
  return clone_graph(MAKER(cuGraphClone), out, original, CROPDL_DRIVER(cuGraphClone));
}
CUresult lower_cuGraphDestroy(CUgraph of) { return destroy_graph(of, CROPDL_DRIVER(cuGraphDestroy)); }

CUresult lower_cuGraphInstantiate(CUgraphExec* out, CUgraph of, Node* wrong, char* log, size_t bytes) {
  return instantiate_with_log(MAKER(cuGraphInstantiate), out, of, wrong, [&](auto* e, auto g) {
    return CROPDL_DRIVER(cuGraphInstantiate)(e, g, wrong, log, bytes);
  });
}
CUresult lower_cuGraphInstantiate_v2(CUgraphExec* out, CUgraph of, Node* wrong, char* log, size_t bytes) {
  return instantiate_with_log(MAKER(cuGraphInstantiate_v2), out, of, wrong, [&](auto* e, auto g) {
    return CROPDL_DRIVER(cuGraphInstantiate_v2)(e, g, wrong, log, bytes);
  });
}
CUresult lower_cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph of, unsigned long long flags) {
  return instantiate(MAKER(cuGraphInstantiateWithFlags), out, of, flags, [&](auto* e, auto g) {
    return CROPDL_DRIVER(cuGraphInstantiateWithFlags)(e, g, flags);
  });
}

CUresult lower_cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph of,
                                            CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiate_with(MAKER(cuGraphInstantiateWithParams), out, of, params,
                          CROPDL_DRIVER(cuGraphInstantiateWithParams));
}
CUresult lower_cuGraphInstantiateWithParams_ptsz(CUgraphExec* out, CUgraph of,
                                                 CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiate_with(MAKER(cuGraphInstantiateWithParams_ptsz), out, of, params,
                          CROPDL_DRIVER(cuGraphInstantiateWithParams_ptsz));
}

CUresult lower_cuGraphExecDestroy(CUgraphExec of) {
  return destroy_executable(of, CROPDL_DRIVER(cuGraphExecDestroy));
}

CUresult lower_cuGraphExecUpdate(CUgraphExec of, CUgraph from, Node* wrong, CUgraphExecUpdateResult* result) {
  rt::Call call;
  if (wrong) *wrong = nullptr;
  const CUresult r = CROPDL_DRIVER(cuGraphExecUpdate)(exec(of), graph(from), wrong, result);
  if (wrong && *wrong) *wrong = node_of(rt::word_of(from), *wrong, MAKER(cuGraphExecUpdate));
  if (r == CUDA_SUCCESS) nccl::executable_is(exec(of), graph(from));
  return r;
}
CUresult lower_cuGraphExecUpdate_v2(CUgraphExec of, CUgraph from, CUgraphExecUpdateResultInfo* result) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphExecUpdate_v2)(exec(of), graph(from), result);
  if (result) {
    result->errorNode = node_of(rt::word_of(from), result->errorNode, MAKER(cuGraphExecUpdate_v2));
    result->errorFromNode = known_or_real(result->errorFromNode, kind::cudaGraphNode);
  }
  if (r == CUDA_SUCCESS) nccl::executable_is(exec(of), graph(from));
  return r;
}

CUresult lower_cuGraphLaunch(CUgraphExec what, CUstream on) {
  return launch(what, on, CROPDL_DRIVER(cuGraphLaunch));
}
CUresult lower_cuGraphLaunch_ptsz(CUgraphExec what, CUstream on) {
  return launch(what, on, CROPDL_DRIVER(cuGraphLaunch_ptsz));
}

// --- Adding nodes.

CUresult lower_cuGraphAddKernelNode(Node* out, CUgraph to, const Node* dependencies, size_t n,
                                    const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  rt::Call call;
  const auto p = params ? real_kernel(*params) : CUDA_KERNEL_NODE_PARAMS_v1{};
  return add_node(MAKER(cuGraphAddKernelNode), out, to, dependencies, n, [&](auto* o, auto g, auto* d) {
    return CROPDL_DRIVER(cuGraphAddKernelNode)(o, g, d, n, params ? &p : nullptr);
  });
}
CUresult lower_cuGraphAddKernelNode_v2(Node* out, CUgraph to, const Node* dependencies, size_t n,
                                       const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  rt::Call call;
  const auto p = params ? real_kernel(*params) : CUDA_KERNEL_NODE_PARAMS_v2{};
  return add_node(MAKER(cuGraphAddKernelNode_v2), out, to, dependencies, n, [&](auto* o, auto g, auto* d) {
    return CROPDL_DRIVER(cuGraphAddKernelNode_v2)(o, g, d, n, params ? &p : nullptr);
  });
}
CUresult lower_cuGraphAddMemcpyNode(Node* out, CUgraph to, const Node* dependencies, size_t n,
                                    const CUDA_MEMCPY3D* params, CUcontext in) {
  rt::Call call;
  const auto p = params ? real_of(*params) : CUDA_MEMCPY3D{};
  return add_node(MAKER(cuGraphAddMemcpyNode), out, to, dependencies, n, [&](auto* o, auto g, auto* d) {
    return CROPDL_DRIVER(cuGraphAddMemcpyNode)(o, g, d, n, params ? &p : nullptr, context(in));
  });
}
CUresult lower_cuGraphAddBatchMemOpNode(Node* out, CUgraph to, const Node* dependencies, size_t n,
                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  rt::Call call;
  const auto p = params ? real_operations(*params) : CUDA_BATCH_MEM_OP_NODE_PARAMS{};
  return add_node(MAKER(cuGraphAddBatchMemOpNode), out, to, dependencies, n, [&](auto* o, auto g, auto* d) {
    return CROPDL_DRIVER(cuGraphAddBatchMemOpNode)(o, g, d, n, params ? &p : nullptr);
  });
}
CUresult lower_cuGraphAddHostNode(Node* out, CUgraph to, const Node* dependencies, size_t n,
                                  const CUDA_HOST_NODE_PARAMS* params) {
  rt::Call call;
  auto p = params ? *params : CUDA_HOST_NODE_PARAMS{};
  host_of(p);
  return add_node(MAKER(cuGraphAddHostNode), out, to, dependencies, n, [&](auto* o, auto g, auto* d) {
    return CROPDL_DRIVER(cuGraphAddHostNode)(o, g, d, n, params ? &p : nullptr);
  });
}
CUresult lower_cuGraphAddChildGraphNode(Node* out, CUgraph to, const Node* dependencies, size_t n,
                                        CUgraph child) {
  rt::Call call;
  const auto r =
      add_node(MAKER(cuGraphAddChildGraphNode), out, to, dependencies, n, [&](auto* o, auto g, auto* d) {
        return CROPDL_DRIVER(cuGraphAddChildGraphNode)(o, g, d, n, graph(child));
      });
  if (r == CUDA_SUCCESS) nccl::graph_takes(graph(to), graph(child));
  return r;
}
CUresult lower_cuGraphAddMemAllocNode(Node* out, CUgraph to, const Node* dependencies, size_t n,
                                      CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  rt::Call call;
  rt::mark_unsaved(kDriver, driver::kFn_cuGraphAddMemAllocNode, kGraphsMemory);
  return add_node(MAKER(cuGraphAddMemAllocNode), out, to, dependencies, n, [&](auto* o, auto g, auto* d) {
    return CROPDL_DRIVER(cuGraphAddMemAllocNode)(o, g, d, n, params);
  });
}
CUresult lower_cuGraphAddNode(Node* out, CUgraph to, const Node* dependencies, size_t n,
                              CUgraphNodeParams* params) {
  return add_any(
      MAKER(cuGraphAddNode), out, to, dependencies, n, params,
      [&](auto* o, auto g, auto* d, auto* p) { return CROPDL_DRIVER(cuGraphAddNode)(o, g, d, n, p); });
}
CUresult lower_cuGraphAddNode_v2(Node* out, CUgraph to, const Node* dependencies,
                                 const CUgraphEdgeData* edges, size_t n, CUgraphNodeParams* params) {
  return add_any(MAKER(cuGraphAddNode_v2), out, to, dependencies, n, params,
                 [&](auto* o, auto g, auto* d, auto* p) {
                   return CROPDL_DRIVER(cuGraphAddNode_v2)(o, g, d, edges, n, p);
                 });
}

// --- Querying and changing nodes.

CUresult lower_cuGraphKernelNodeGetParams(Node of, CUDA_KERNEL_NODE_PARAMS_v1* params) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphKernelNodeGetParams)(node(of), params);
  if (r == CUDA_SUCCESS && params) their_kernel(*params);
  return r;
}
CUresult lower_cuGraphKernelNodeGetParams_v2(Node of, CUDA_KERNEL_NODE_PARAMS_v2* params) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphKernelNodeGetParams_v2)(node(of), params);
  if (r == CUDA_SUCCESS && params) their_kernel(*params);
  return r;
}
CUresult lower_cuGraphKernelNodeSetParams(Node of, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  rt::Call call;
  const auto p = params ? real_kernel(*params) : CUDA_KERNEL_NODE_PARAMS_v1{};
  return CROPDL_DRIVER(cuGraphKernelNodeSetParams)(node(of), params ? &p : nullptr);
}
CUresult lower_cuGraphKernelNodeSetParams_v2(Node of, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  rt::Call call;
  const auto p = params ? real_kernel(*params) : CUDA_KERNEL_NODE_PARAMS_v2{};
  return CROPDL_DRIVER(cuGraphKernelNodeSetParams_v2)(node(of), params ? &p : nullptr);
}
CUresult lower_cuGraphExecKernelNodeSetParams(CUgraphExec in, Node of,
                                              const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  rt::Call call;
  const auto p = params ? real_kernel(*params) : CUDA_KERNEL_NODE_PARAMS_v1{};
  return CROPDL_DRIVER(cuGraphExecKernelNodeSetParams)(exec(in), node(of), params ? &p : nullptr);
}
CUresult lower_cuGraphExecKernelNodeSetParams_v2(CUgraphExec in, Node of,
                                                 const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  rt::Call call;
  const auto p = params ? real_kernel(*params) : CUDA_KERNEL_NODE_PARAMS_v2{};
  return CROPDL_DRIVER(cuGraphExecKernelNodeSetParams_v2)(exec(in), node(of), params ? &p : nullptr);
}
CUresult lower_cuGraphKernelNodeGetAttribute(Node of, CUkernelNodeAttrID id, CUkernelNodeAttrValue* value) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphKernelNodeGetAttribute)(node(of), id, value);
  if (r == CUDA_SUCCESS && value) theirs_of(id, *value);
  return r;
}
CUresult lower_cuGraphKernelNodeSetAttribute(Node of, CUkernelNodeAttrID id,
                                             const CUkernelNodeAttrValue* value) {
  rt::Call call;
  const auto v = value ? real_of(id, *value) : CUkernelNodeAttrValue{};
  return CROPDL_DRIVER(cuGraphKernelNodeSetAttribute)(node(of), id, value ? &v : nullptr);
}
CUresult lower_cuGraphMemcpyNodeGetParams(Node of, CUDA_MEMCPY3D* params) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphMemcpyNodeGetParams)(node(of), params);
  if (r == CUDA_SUCCESS && params) theirs_of(*params);
  return r;
}
CUresult lower_cuGraphMemcpyNodeSetParams(Node of, const CUDA_MEMCPY3D* params) {
  rt::Call call;
  const auto p = params ? real_of(*params) : CUDA_MEMCPY3D{};
  return CROPDL_DRIVER(cuGraphMemcpyNodeSetParams)(node(of), params ? &p : nullptr);
}
CUresult lower_cuGraphExecMemcpyNodeSetParams(CUgraphExec at, Node of, const CUDA_MEMCPY3D* params,
                                              CUcontext in) {
  rt::Call call;
  const auto p = params ? real_of(*params) : CUDA_MEMCPY3D{};
  return CROPDL_DRIVER(cuGraphExecMemcpyNodeSetParams)(exec(at), node(of), params ? &p : nullptr,
                                                       context(in));
}
CUresult lower_cuGraphBatchMemOpNodeGetParams(Node of, CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphBatchMemOpNodeGetParams)(node(of), params);
  if (r == CUDA_SUCCESS && params) params->ctx = known_or_real(params->ctx, kind::cudaContext);
  return r;
}
CUresult lower_cuGraphBatchMemOpNodeSetParams(Node of, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  rt::Call call;
  const auto p = params ? real_operations(*params) : CUDA_BATCH_MEM_OP_NODE_PARAMS{};
  return CROPDL_DRIVER(cuGraphBatchMemOpNodeSetParams)(node(of), params ? &p : nullptr);
}
CUresult lower_cuGraphExecBatchMemOpNodeSetParams(CUgraphExec in, Node of,
                                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  rt::Call call;
  const auto p = params ? real_operations(*params) : CUDA_BATCH_MEM_OP_NODE_PARAMS{};
  return CROPDL_DRIVER(cuGraphExecBatchMemOpNodeSetParams)(exec(in), node(of), params ? &p : nullptr);
}
CUresult lower_cuGraphHostNodeGetParams(Node of, CUDA_HOST_NODE_PARAMS* params) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphHostNodeGetParams)(node(of), params);
  if (r != CUDA_SUCCESS || !params) return r;
  HostNode n{params->fn, params->userData};
  program_host_node(n);
  *params = {n.function, n.data};
  return r;
}
CUresult lower_cuGraphHostNodeSetParams(Node of, const CUDA_HOST_NODE_PARAMS* params) {
  rt::Call call;
  auto p = params ? *params : CUDA_HOST_NODE_PARAMS{};
  host_of(p);
  return CROPDL_DRIVER(cuGraphHostNodeSetParams)(node(of), params ? &p : nullptr);
}
CUresult lower_cuGraphExecHostNodeSetParams(CUgraphExec in, Node of, const CUDA_HOST_NODE_PARAMS* params) {
  rt::Call call;
  auto p = params ? *params : CUDA_HOST_NODE_PARAMS{};
  host_of(p);
  return CROPDL_DRIVER(cuGraphExecHostNodeSetParams)(exec(in), node(of), params ? &p : nullptr);
}
CUresult lower_cuGraphNodeSetParams(Node of, CUgraphNodeParams* params) {
  rt::Call call;
  auto p = params ? *params : CUgraphNodeParams{};
  if (params) to_real(p);
  return CROPDL_DRIVER(cuGraphNodeSetParams)(node(of), params ? &p : nullptr);
}
CUresult lower_cuGraphExecNodeSetParams(CUgraphExec in, Node of, CUgraphNodeParams* params) {
  rt::Call call;
  auto p = params ? *params : CUgraphNodeParams{};
  if (params) to_real(p);
  return CROPDL_DRIVER(cuGraphExecNodeSetParams)(exec(in), node(of), params ? &p : nullptr);
}

// --- Contents of a graph.

CUresult lower_cuGraphGetNodes(CUgraph of, Node* nodes, size_t* n) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphGetNodes)(graph(of), nodes, n);
  if (r == CUDA_SUCCESS) nodes_of(rt::word_of(of), nodes, n, MAKER(cuGraphGetNodes));
  return r;
}
CUresult lower_cuGraphGetRootNodes(CUgraph of, Node* nodes, size_t* n) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphGetRootNodes)(graph(of), nodes, n);
  if (r == CUDA_SUCCESS) nodes_of(rt::word_of(of), nodes, n, MAKER(cuGraphGetRootNodes));
  return r;
}
CUresult lower_cuGraphGetEdges(CUgraph of, Node* from, Node* to, size_t* n) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphGetEdges)(graph(of), from, to, n);
  if (r == CUDA_SUCCESS) edges_of(of, from, to, n, MAKER(cuGraphGetEdges));
  return r;
}
CUresult lower_cuGraphGetEdges_v2(CUgraph of, Node* from, Node* to, CUgraphEdgeData* edges, size_t* n) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphGetEdges_v2)(graph(of), from, to, edges, n);
  if (r == CUDA_SUCCESS) edges_of(of, from, to, n, MAKER(cuGraphGetEdges_v2));
  return r;
}
CUresult lower_cuGraphNodeGetDependencies(Node of, Node* nodes, size_t* n) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphNodeGetDependencies)(node(of), nodes, n);
  if (r == CUDA_SUCCESS) nodes_of(graph_of(rt::word_of(of)), nodes, n, MAKER(cuGraphNodeGetDependencies));
  return r;
}
CUresult lower_cuGraphNodeGetDependencies_v2(Node of, Node* nodes, CUgraphEdgeData* edges, size_t* n) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphNodeGetDependencies_v2)(node(of), nodes, edges, n);
  if (r == CUDA_SUCCESS) nodes_of(graph_of(rt::word_of(of)), nodes, n, MAKER(cuGraphNodeGetDependencies_v2));
  return r;
}
CUresult lower_cuGraphNodeGetDependentNodes(Node of, Node* nodes, size_t* n) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphNodeGetDependentNodes)(node(of), nodes, n);
  if (r == CUDA_SUCCESS) nodes_of(graph_of(rt::word_of(of)), nodes, n, MAKER(cuGraphNodeGetDependentNodes));
  return r;
}
CUresult lower_cuGraphNodeGetDependentNodes_v2(Node of, Node* nodes, CUgraphEdgeData* edges, size_t* n) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuGraphNodeGetDependentNodes_v2)(node(of), nodes, edges, n);
  if (r == CUDA_SUCCESS)
    nodes_of(graph_of(rt::word_of(of)), nodes, n, MAKER(cuGraphNodeGetDependentNodes_v2));
  return r;
}

// --- User objects.

CUresult lower_cuUserObjectCreate(CUuserObject* out, void* data, CUhostFn destroy, unsigned count,
                                  unsigned flags) {
  rt::Call call;
  if (!out || !destroy) return CROPDL_DRIVER(cuUserObjectCreate)(out, data, destroy, count, flags);
  Destructor* mine = destructor(destroy, data);
  CUuserObject made{};
  const CUresult r = CROPDL_DRIVER(cuUserObjectCreate)(&made, mine, call_destructor, count, flags);
  if (r != CUDA_SUCCESS) {
    drop(mine);
    return r;
  }
  const uint64_t word = rt::made_word(rt::word_of(made), kind::cudaUserObject, kDriver,
                                      driver::kFn_cuUserObjectCreate, nullptr);
  destructor_is_of(mine, word);
  *out = rt::handle_of<CUuserObject>(word);
  return r;
}
// --- Captures.

CUresult lower_cuStreamBeginCapture(CUstream on) {
  return begin_capture<DriverCalls, false>(MAKER(cuStreamBeginCapture), on, true,
                                           [&](auto s) { return CROPDL_DRIVER(cuStreamBeginCapture)(s); });
}
CUresult lower_cuStreamBeginCapture_ptsz(CUstream on) {
  return begin_capture<DriverCalls, true>(MAKER(cuStreamBeginCapture_ptsz), on, true, [&](auto s) {
    return CROPDL_DRIVER(cuStreamBeginCapture_ptsz)(s);
  });
}
CUresult lower_cuStreamBeginCapture_v2(CUstream on, CUstreamCaptureMode mode) {
  return begin_capture<DriverCalls, false>(MAKER(cuStreamBeginCapture_v2), on, true, [&](auto s) {
    return CROPDL_DRIVER(cuStreamBeginCapture_v2)(s, mode);
  });
}
CUresult lower_cuStreamBeginCapture_v2_ptsz(CUstream on, CUstreamCaptureMode mode) {
  return begin_capture<DriverCalls, true>(MAKER(cuStreamBeginCapture_v2_ptsz), on, true, [&](auto s) {
    return CROPDL_DRIVER(cuStreamBeginCapture_v2_ptsz)(s, mode);
  });
}
CUresult lower_cuStreamBeginCaptureToGraph(CUstream on, CUgraph to, const Node* nodes,
                                           const CUgraphEdgeData* edges, size_t n, CUstreamCaptureMode mode) {
  const rt::Reals<Node> reals(nodes, n, kind::cudaGraphNode);
  return begin_capture<DriverCalls, false>(MAKER(cuStreamBeginCaptureToGraph), on, false, [&](auto s) {
    return CROPDL_DRIVER(cuStreamBeginCaptureToGraph)(s, graph(to), reals.data(), edges, n, mode);
  });
}
CUresult lower_cuStreamBeginCaptureToGraph_ptsz(CUstream on, CUgraph to, const Node* nodes,
                                                const CUgraphEdgeData* edges, size_t n,
                                                CUstreamCaptureMode mode) {
  const rt::Reals<Node> reals(nodes, n, kind::cudaGraphNode);
  return begin_capture<DriverCalls, true>(MAKER(cuStreamBeginCaptureToGraph_ptsz), on, false, [&](auto s) {
    return CROPDL_DRIVER(cuStreamBeginCaptureToGraph_ptsz)(s, graph(to), reals.data(), edges, n, mode);
  });
}

CUresult lower_cuStreamEndCapture(CUstream on, CUgraph* out) {
  return end_capture<DriverCalls, false>(on, out, MAKER(cuStreamEndCapture));
}
CUresult lower_cuStreamEndCapture_ptsz(CUstream on, CUgraph* out) {
  return end_capture<DriverCalls, true>(on, out, MAKER(cuStreamEndCapture_ptsz));
}

CUresult lower_cuStreamGetCaptureInfo_v2(CUstream on, CUstreamCaptureStatus* status, cuuint64_t* id,
                                         CUgraph* out, const Node** nodes, size_t* n) {
  return capture_info<DriverCalls, false>(on, status, id, out, nodes, nullptr, n,
                                          MAKER(cuStreamGetCaptureInfo_v2));
}
CUresult lower_cuStreamGetCaptureInfo_v3(CUstream on, CUstreamCaptureStatus* status, cuuint64_t* id,
                                         CUgraph* out, const Node** nodes, const CUgraphEdgeData** edges,
                                         size_t* n) {
  return capture_info<DriverCalls, false>(on, status, id, out, nodes, edges, n,
                                          MAKER(cuStreamGetCaptureInfo_v3));
}
CUresult lower_cuStreamGetCaptureInfo_v2_ptsz(CUstream on, CUstreamCaptureStatus* status, cuuint64_t* id,
                                              CUgraph* out, const Node** nodes, size_t* n) {
  return capture_info<DriverCalls, true>(on, status, id, out, nodes, nullptr, n,
                                         MAKER(cuStreamGetCaptureInfo_v2_ptsz));
}
CUresult lower_cuStreamGetCaptureInfo_v3_ptsz(CUstream on, CUstreamCaptureStatus* status, cuuint64_t* id,
                                              CUgraph* out, const Node** nodes, const CUgraphEdgeData** edges,
                                              size_t* n) {
  return capture_info<DriverCalls, true>(on, status, id, out, nodes, edges, n,
                                         MAKER(cuStreamGetCaptureInfo_v3_ptsz));
}

}  // extern "C"

#undef MAKER
