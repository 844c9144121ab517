// The driver's functions about graphs. See graphs.h and graph_nodes.h.
#include "interpose/cuda/lower/graph_nodes.h"

using namespace cropdl::cuda;

#define REAL CROPDL_DRIVER_FUNCTION

namespace {

template <class F>
CUresult instantiate_with_log(RealFunction<F> make, CUgraphExec* out, CUgraph of, Node* wrong, char* log,
                              size_t bytes) {
  rt::Call call;
  if (wrong) *wrong = nullptr;
  const CUresult r = instantiate_in_call(make, out, of, 0, wrong, log, bytes);
  if (wrong && *wrong) *wrong = node_of(rt::word_of(of), *wrong, make);
  return r;
}

}  // namespace

extern "C" {

CUresult lower_cuGraphClone(CUgraph* out, CUgraph original) {
  return clone_graph(REAL(cuGraphClone), out, original);
}
CUresult lower_cuGraphDestroy(CUgraph of) { return destroy_graph(of, REAL(cuGraphDestroy)); }

// --- Executable graphs.

CUresult lower_cuGraphInstantiate(CUgraphExec* out, CUgraph of, Node* wrong, char* log, size_t bytes) {
  return instantiate_with_log(REAL(cuGraphInstantiate), out, of, wrong, log, bytes);
}
CUresult lower_cuGraphInstantiate_v2(CUgraphExec* out, CUgraph of, Node* wrong, char* log, size_t bytes) {
  return instantiate_with_log(REAL(cuGraphInstantiate_v2), out, of, wrong, log, bytes);
}
CUresult lower_cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph of, unsigned long long flags) {
  return instantiate(REAL(cuGraphInstantiateWithFlags), out, of, flags);
}
CUresult lower_cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph of,
                                            CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiate_with(REAL(cuGraphInstantiateWithParams), out, of, params);
}
CUresult lower_cuGraphInstantiateWithParams_ptsz(CUgraphExec* out, CUgraph of,
                                                 CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiate_with(REAL(cuGraphInstantiateWithParams_ptsz), out, of, params);
}
CUresult lower_cuGraphExecDestroy(CUgraphExec of) { return destroy_executable(of, REAL(cuGraphExecDestroy)); }
CUresult lower_cuGraphExecUpdate(CUgraphExec of, CUgraph from, Node* wrong, CUgraphExecUpdateResult* result) {
  rt::Call call;
  if (wrong) *wrong = nullptr;
  const CUresult r = CROPDL_DRIVER(cuGraphExecUpdate)(exec(of), graph(from), wrong, result);
  if (wrong && *wrong) *wrong = node_of(rt::word_of(from), *wrong, CROPDL_DRIVER_MAKER(cuGraphExecUpdate));
  if (r == CUDA_SUCCESS) nccl::executable_is(exec(of), graph(from));
  return r;
}
CUresult lower_cuGraphExecUpdate_v2(CUgraphExec of, CUgraph from, CUgraphExecUpdateResultInfo* result) {
  return update_executable(REAL(cuGraphExecUpdate_v2), of, from, result);
}
CUresult lower_cuGraphLaunch(CUgraphExec what, CUstream on) { return launch(what, on, REAL(cuGraphLaunch)); }
CUresult lower_cuGraphLaunch_ptsz(CUgraphExec what, CUstream on) {
  return launch(what, on, REAL(cuGraphLaunch_ptsz));
}

// --- Contents of a graph.

CUresult lower_cuGraphGetNodes(CUgraph of, Node* nodes, size_t* n) {
  return list_nodes(REAL(cuGraphGetNodes), of, nodes, n);
}
CUresult lower_cuGraphGetRootNodes(CUgraph of, Node* nodes, size_t* n) {
  return list_nodes(REAL(cuGraphGetRootNodes), of, nodes, n);
}
CUresult lower_cuGraphGetEdges(CUgraph of, Node* from, Node* to, size_t* n) {
  return list_edges(REAL(cuGraphGetEdges), of, from, to, n);
}
CUresult lower_cuGraphGetEdges_v2(CUgraph of, Node* from, Node* to, CUgraphEdgeData* edges, size_t* n) {
  return list_edges(REAL(cuGraphGetEdges_v2), of, from, to, n, edges);
}
CUresult lower_cuGraphNodeGetDependencies(Node of, Node* nodes, size_t* n) {
  return list_neighbours(REAL(cuGraphNodeGetDependencies), of, nodes, n);
}
CUresult lower_cuGraphNodeGetDependencies_v2(Node of, Node* nodes, CUgraphEdgeData* edges, size_t* n) {
  return list_neighbours(REAL(cuGraphNodeGetDependencies_v2), of, nodes, n, edges);
}
CUresult lower_cuGraphNodeGetDependentNodes(Node of, Node* nodes, size_t* n) {
  return list_neighbours(REAL(cuGraphNodeGetDependentNodes), of, nodes, n);
}
CUresult lower_cuGraphNodeGetDependentNodes_v2(Node of, Node* nodes, CUgraphEdgeData* edges, size_t* n) {
  return list_neighbours(REAL(cuGraphNodeGetDependentNodes_v2), of, nodes, n, edges);
}

CUresult lower_cuUserObjectCreate(CUuserObject* out, void* data, CUhostFn destroy, unsigned count,
                                  unsigned flags) {
  return create_user_object(REAL(cuUserObjectCreate), out, data, destroy, count, flags);
}

// --- Adding nodes.

CUresult lower_cuGraphAddKernelNode(Node* out, CUgraph to, const Node* dependencies, size_t n,
                                    const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return add_node(REAL(cuGraphAddKernelNode), out, to, dependencies, n, params);
}
CUresult lower_cuGraphAddKernelNode_v2(Node* out, CUgraph to, const Node* dependencies, size_t n,
                                       const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return add_node(REAL(cuGraphAddKernelNode_v2), out, to, dependencies, n, params);
}
CUresult lower_cuGraphAddMemcpyNode(Node* out, CUgraph to, const Node* dependencies, size_t n,
                                    const CUDA_MEMCPY3D* params, CUcontext in) {
  return add_node(REAL(cuGraphAddMemcpyNode), out, to, dependencies, n, params, in);
}
CUresult lower_cuGraphAddBatchMemOpNode(Node* out, CUgraph to, const Node* dependencies, size_t n,
                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return add_node(REAL(cuGraphAddBatchMemOpNode), out, to, dependencies, n, params);
}
CUresult lower_cuGraphAddHostNode(Node* out, CUgraph to, const Node* dependencies, size_t n,
                                  const CUDA_HOST_NODE_PARAMS* params) {
  return add_node(REAL(cuGraphAddHostNode), out, to, dependencies, n, params);
}
CUresult lower_cuGraphAddChildGraphNode(Node* out, CUgraph to, const Node* dependencies, size_t n,
                                        CUgraph child) {
  return add_child(REAL(cuGraphAddChildGraphNode), out, to, dependencies, n, child);
}
CUresult lower_cuGraphAddMemAllocNode(Node* out, CUgraph to, const Node* dependencies, size_t n,
                                      CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return add_allocation(REAL(cuGraphAddMemAllocNode), out, to, dependencies, n, params);
}
CUresult lower_cuGraphAddNode(Node* out, CUgraph to, const Node* dependencies, size_t n,
                              CUgraphNodeParams* params) {
  return add_any(REAL(cuGraphAddNode), out, to, dependencies, n, params);
}
CUresult lower_cuGraphAddNode_v2(Node* out, CUgraph to, const Node* dependencies,
                                 const CUgraphEdgeData* edges, size_t n, CUgraphNodeParams* params) {
  return add_any(REAL(cuGraphAddNode_v2), out, to, dependencies, n, params, edges);
}

// --- Querying and changing nodes.

CUresult lower_cuGraphKernelNodeGetParams(Node of, CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return get_node(of, params, REAL(cuGraphKernelNodeGetParams));
}
CUresult lower_cuGraphKernelNodeGetParams_v2(Node of, CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return get_node(of, params, REAL(cuGraphKernelNodeGetParams_v2));
}
CUresult lower_cuGraphKernelNodeSetParams(Node of, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return set_node(of, params, REAL(cuGraphKernelNodeSetParams));
}
CUresult lower_cuGraphKernelNodeSetParams_v2(Node of, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return set_node(of, params, REAL(cuGraphKernelNodeSetParams_v2));
}
CUresult lower_cuGraphExecKernelNodeSetParams(CUgraphExec in, Node of,
                                              const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return set_node(in, of, params, REAL(cuGraphExecKernelNodeSetParams));
}
CUresult lower_cuGraphExecKernelNodeSetParams_v2(CUgraphExec in, Node of,
                                                 const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return set_node(in, of, params, REAL(cuGraphExecKernelNodeSetParams_v2));
}
CUresult lower_cuGraphKernelNodeGetAttribute(Node of, CUkernelNodeAttrID id, CUkernelNodeAttrValue* value) {
  return get_node_attribute(of, id, value, REAL(cuGraphKernelNodeGetAttribute));
}
CUresult lower_cuGraphKernelNodeSetAttribute(Node of, CUkernelNodeAttrID id,
                                             const CUkernelNodeAttrValue* value) {
  return set_node_attribute(of, id, value, REAL(cuGraphKernelNodeSetAttribute));
}
CUresult lower_cuGraphMemcpyNodeGetParams(Node of, CUDA_MEMCPY3D* params) {
  return get_node(of, params, REAL(cuGraphMemcpyNodeGetParams));
}
CUresult lower_cuGraphMemcpyNodeSetParams(Node of, const CUDA_MEMCPY3D* params) {
  return set_node(of, params, REAL(cuGraphMemcpyNodeSetParams));
}
CUresult lower_cuGraphExecMemcpyNodeSetParams(CUgraphExec at, Node of, const CUDA_MEMCPY3D* params,
                                              CUcontext in) {
  return set_node(at, of, params, REAL(cuGraphExecMemcpyNodeSetParams), in);
}
CUresult lower_cuGraphBatchMemOpNodeGetParams(Node of, CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return get_node(of, params, REAL(cuGraphBatchMemOpNodeGetParams));
}
CUresult lower_cuGraphBatchMemOpNodeSetParams(Node of, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return set_node(of, params, REAL(cuGraphBatchMemOpNodeSetParams));
}
CUresult lower_cuGraphExecBatchMemOpNodeSetParams(CUgraphExec in, Node of,
                                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return set_node(in, of, params, REAL(cuGraphExecBatchMemOpNodeSetParams));
}
CUresult lower_cuGraphHostNodeGetParams(Node of, CUDA_HOST_NODE_PARAMS* params) {
  return get_node(of, params, REAL(cuGraphHostNodeGetParams));
}
CUresult lower_cuGraphHostNodeSetParams(Node of, const CUDA_HOST_NODE_PARAMS* params) {
  return set_node(of, params, REAL(cuGraphHostNodeSetParams));
}
CUresult lower_cuGraphExecHostNodeSetParams(CUgraphExec in, Node of, const CUDA_HOST_NODE_PARAMS* params) {
  return set_node(in, of, params, REAL(cuGraphExecHostNodeSetParams));
}
CUresult lower_cuGraphNodeSetParams(Node of, CUgraphNodeParams* params) {
  return set_node(of, params, REAL(cuGraphNodeSetParams));
}
CUresult lower_cuGraphExecNodeSetParams(CUgraphExec in, Node of, CUgraphNodeParams* params) {
  return set_node(in, of, params, REAL(cuGraphExecNodeSetParams));
}

}  // extern "C"

#undef REAL
