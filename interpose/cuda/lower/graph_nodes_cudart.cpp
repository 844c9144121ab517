// The runtime's functions about nodes of graphs. See graph_nodes.h.
#include "interpose/cuda/lower/graph_nodes.h"

using namespace cropdl::cuda;

#define REAL CROPDL_CUDART_FUNCTION

extern "C" {

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
