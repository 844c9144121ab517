// The driver's functions about nodes of graphs. See graph_nodes.h.
#include "interpose/cuda/lower/graph_nodes.h"

using namespace cropdl::cuda;

#define REAL CROPDL_DRIVER_FUNCTION

extern "C" {

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
