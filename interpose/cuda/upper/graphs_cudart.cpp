// The runtime's functions that put functions of the program into graphs. They make the callback thread
// (callbacks.h) first. UH, any thread, UH FS base.
#include <cuda_runtime_api.h>

#include "cudart_functions.h"
#include "interpose/cuda/upper/host_nodes.h"

using cropdl::cuda_shim::call_with_thread;
namespace seam = cropdl::seam::cudart;

namespace {
bool has_function(const cudaGraphNodeParams* p) { return p && p->type == cudaGraphNodeTypeHost; }
}  // namespace

extern "C" {

cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                             const cudaGraphEdgeData* edges, size_t n, cudaGraphNodeParams* params) {
  return call_with_thread<cudaError_t>(has_function(params), seam::kFn_cudaGraphAddNode, node, graph,
                                       dependencies, edges, n, params);
}
cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* params) {
  return call_with_thread<cudaError_t>(has_function(params), seam::kFn_cudaGraphNodeSetParams, node, params);
}
cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                       cudaGraphNodeParams* params) {
  return call_with_thread<cudaError_t>(has_function(params), seam::kFn_cudaGraphExecNodeSetParams, exec, node,
                                       params);
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                 const cudaGraphNode_t* dependencies, size_t n,
                                 const cudaHostNodeParams* params) {
  return call_with_thread<cudaError_t>(true, seam::kFn_cudaGraphAddHostNode, node, graph, dependencies, n,
                                       params);
}
cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* params) {
  return call_with_thread<cudaError_t>(true, seam::kFn_cudaGraphHostNodeSetParams, node, params);
}
cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* params) {
  return call_with_thread<cudaError_t>(true, seam::kFn_cudaGraphExecHostNodeSetParams, exec, node, params);
}
cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* data, cudaHostFn_t destroy, unsigned count,
                                 unsigned flags) {
  return call_with_thread<cudaError_t>(true, seam::kFn_cudaUserObjectCreate, object, data, destroy, count,
                                       flags);
}

}  // extern "C"
