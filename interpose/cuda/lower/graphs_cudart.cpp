// The runtime's functions about graphs. See graphs.h and graph_nodes.h.
#include "interpose/cuda/lower/graph_nodes.h"

using namespace cropdl::cuda;

#define REAL CROPDL_CUDART_FUNCTION

extern "C" {

cudaError_t lower_cudaGraphClone(cudaGraph_t* out, cudaGraph_t original) {
  return clone_graph(REAL(cudaGraphClone), out, original);
}
cudaError_t lower_cudaGraphDestroy(cudaGraph_t of) { return destroy_graph(of, REAL(cudaGraphDestroy)); }

// --- Executable graphs.

cudaError_t lower_cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t of, unsigned long long flags) {
  return instantiate(REAL(cudaGraphInstantiate), out, of, flags);
}
cudaError_t lower_cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t of,
                                                unsigned long long flags) {
  return instantiate(REAL(cudaGraphInstantiateWithFlags), out, of, flags);
}
cudaError_t lower_cudaGraphInstantiateWithParams(cudaGraphExec_t* out, cudaGraph_t of,
                                                 cudaGraphInstantiateParams* params) {
  return instantiate_with(REAL(cudaGraphInstantiateWithParams), out, of, params);
}
cudaError_t lower_cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t* out, cudaGraph_t of,
                                                      cudaGraphInstantiateParams* params) {
  return instantiate_with(CROPDL_CUDART_PTSZ_FUNCTION(cudaGraphInstantiateWithParams), out, of, params);
}
cudaError_t lower_cudaGraphExecDestroy(cudaGraphExec_t of) {
  return destroy_executable(of, REAL(cudaGraphExecDestroy));
}
cudaError_t lower_cudaGraphExecUpdate(cudaGraphExec_t of, cudaGraph_t from,
                                      cudaGraphExecUpdateResultInfo* result) {
  return update_executable(REAL(cudaGraphExecUpdate), of, from, result);
}
cudaError_t lower_cudaGraphLaunch(cudaGraphExec_t what, cudaStream_t on) {
  return launch(what, on, REAL(cudaGraphLaunch));
}
cudaError_t lower_cudaGraphLaunch_ptsz(cudaGraphExec_t what, cudaStream_t on) {
  return launch(what, on, CROPDL_CUDART_PTSZ_FUNCTION(cudaGraphLaunch));
}

// --- Contents of a graph.

cudaError_t lower_cudaGraphGetNodes(cudaGraph_t of, Node* nodes, size_t* n) {
  return list_nodes(REAL(cudaGraphGetNodes), of, nodes, n);
}
cudaError_t lower_cudaGraphGetRootNodes(cudaGraph_t of, Node* nodes, size_t* n) {
  return list_nodes(REAL(cudaGraphGetRootNodes), of, nodes, n);
}
cudaError_t lower_cudaGraphGetEdges(cudaGraph_t of, Node* from, Node* to, cudaGraphEdgeData* edges,
                                    size_t* n) {
  return list_edges(REAL(cudaGraphGetEdges), of, from, to, n, edges);
}
cudaError_t lower_cudaGraphNodeGetDependencies(Node of, Node* nodes, cudaGraphEdgeData* edges, size_t* n) {
  return list_neighbours(REAL(cudaGraphNodeGetDependencies), of, nodes, n, edges);
}
cudaError_t lower_cudaGraphNodeGetDependentNodes(Node of, Node* nodes, cudaGraphEdgeData* edges, size_t* n) {
  return list_neighbours(REAL(cudaGraphNodeGetDependentNodes), of, nodes, n, edges);
}

cudaError_t lower_cudaUserObjectCreate(cudaUserObject_t* out, void* data, cudaHostFn_t destroy,
                                       unsigned count, unsigned flags) {
  return create_user_object(REAL(cudaUserObjectCreate), out, data, destroy, count, flags);
}

// --- Adding nodes.

cudaError_t lower_cudaGraphAddKernelNode(Node* out, cudaGraph_t to, const Node* dependencies, size_t n,
                                         const cudaKernelNodeParams* params) {
  return add_node(REAL(cudaGraphAddKernelNode), out, to, dependencies, n, params);
}
cudaError_t lower_cudaGraphAddMemcpyNode(Node* out, cudaGraph_t to, const Node* dependencies, size_t n,
                                         const cudaMemcpy3DParms* params) {
  return add_node(REAL(cudaGraphAddMemcpyNode), out, to, dependencies, n, params);
}
cudaError_t lower_cudaGraphAddHostNode(Node* out, cudaGraph_t to, const Node* dependencies, size_t n,
                                       const cudaHostNodeParams* params) {
  return add_node(REAL(cudaGraphAddHostNode), out, to, dependencies, n, params);
}
cudaError_t lower_cudaGraphAddChildGraphNode(Node* out, cudaGraph_t to, const Node* dependencies, size_t n,
                                             cudaGraph_t child) {
  return add_child(REAL(cudaGraphAddChildGraphNode), out, to, dependencies, n, child);
}
cudaError_t lower_cudaGraphAddMemAllocNode(Node* out, cudaGraph_t to, const Node* dependencies, size_t n,
                                           cudaMemAllocNodeParams* params) {
  return add_allocation(REAL(cudaGraphAddMemAllocNode), out, to, dependencies, n, params);
}
cudaError_t lower_cudaGraphAddNode(Node* out, cudaGraph_t to, const Node* dependencies,
                                   const cudaGraphEdgeData* edges, size_t n, cudaGraphNodeParams* params) {
  return add_any(REAL(cudaGraphAddNode), out, to, dependencies, n, params, edges);
}

// --- Querying and changing nodes.

cudaError_t lower_cudaGraphKernelNodeGetParams(Node of, cudaKernelNodeParams* params) {
  return get_node(of, params, REAL(cudaGraphKernelNodeGetParams));
}
cudaError_t lower_cudaGraphKernelNodeSetParams(Node of, const cudaKernelNodeParams* params) {
  return set_node(of, params, REAL(cudaGraphKernelNodeSetParams));
}
cudaError_t lower_cudaGraphExecKernelNodeSetParams(cudaGraphExec_t in, Node of,
                                                   const cudaKernelNodeParams* params) {
  return set_node(in, of, params, REAL(cudaGraphExecKernelNodeSetParams));
}
cudaError_t lower_cudaGraphKernelNodeGetAttribute(Node of, cudaLaunchAttributeID id,
                                                  cudaKernelNodeAttrValue* value) {
  return get_node_attribute(of, id, value, REAL(cudaGraphKernelNodeGetAttribute));
}
cudaError_t lower_cudaGraphKernelNodeSetAttribute(Node of, cudaLaunchAttributeID id,
                                                  const cudaKernelNodeAttrValue* value) {
  return set_node_attribute(of, id, value, REAL(cudaGraphKernelNodeSetAttribute));
}
cudaError_t lower_cudaGraphMemcpyNodeGetParams(Node of, cudaMemcpy3DParms* params) {
  return get_node(of, params, REAL(cudaGraphMemcpyNodeGetParams));
}
cudaError_t lower_cudaGraphMemcpyNodeSetParams(Node of, const cudaMemcpy3DParms* params) {
  return set_node(of, params, REAL(cudaGraphMemcpyNodeSetParams));
}
cudaError_t lower_cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t in, Node of,
                                                   const cudaMemcpy3DParms* params) {
  return set_node(in, of, params, REAL(cudaGraphExecMemcpyNodeSetParams));
}
cudaError_t lower_cudaGraphHostNodeGetParams(Node of, cudaHostNodeParams* params) {
  return get_node(of, params, REAL(cudaGraphHostNodeGetParams));
}
cudaError_t lower_cudaGraphHostNodeSetParams(Node of, const cudaHostNodeParams* params) {
  return set_node(of, params, REAL(cudaGraphHostNodeSetParams));
}
cudaError_t lower_cudaGraphExecHostNodeSetParams(cudaGraphExec_t in, Node of,
                                                 const cudaHostNodeParams* params) {
  return set_node(in, of, params, REAL(cudaGraphExecHostNodeSetParams));
}
cudaError_t lower_cudaGraphNodeSetParams(Node of, cudaGraphNodeParams* params) {
  return set_node(of, params, REAL(cudaGraphNodeSetParams));
}
cudaError_t lower_cudaGraphExecNodeSetParams(cudaGraphExec_t in, Node of, cudaGraphNodeParams* params) {
  return set_node(in, of, params, REAL(cudaGraphExecNodeSetParams));
}

}  // extern "C"

#undef REAL
