// The runtime's functions about graphs. See graphs.h; their nodes are in graph_nodes_cudart.cpp.
#include "interpose/cuda/lower/graph_calls.h"

using namespace cropdl::cuda;

#define REAL CROPDL_CUDART_FUNCTION

extern "C" {

cudaError_t lower_cudaGraphClone(cudaGraph_t* out, cudaGraph_t original) {
  return clone_graph(REAL(cudaGraphClone), out, original);
}
cudaError_t lower_cudaGraphDestroy(cudaGraph_t of) { return destroy_graph(of, REAL(cudaGraphDestroy)); }

// --- Executable graphs.

cudaError_t lower_cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t of, unsigned long long flags) {
  return instantiate(REAL(cudaGraphInstantiate), out, of, flags, flags);
}
cudaError_t lower_cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t of,
                                                unsigned long long flags) {
  return instantiate(REAL(cudaGraphInstantiateWithFlags), out, of, flags, flags);
}
cudaError_t lower_cudaGraphInstantiateWithParams(cudaGraphExec_t* out, cudaGraph_t of,
                                                 cudaGraphInstantiateParams* params) {
  return instantiate_with(REAL(cudaGraphInstantiateWithParams), out, of, params,
                          &cudaGraphInstantiateParams::uploadStream,
                          &cudaGraphInstantiateParams::errNode_out);
}
cudaError_t lower_cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t* out, cudaGraph_t of,
                                                      cudaGraphInstantiateParams* params) {
  return instantiate_with(CROPDL_CUDART_PTSZ_FUNCTION(cudaGraphInstantiateWithParams), out, of, params,
                          &cudaGraphInstantiateParams::uploadStream,
                          &cudaGraphInstantiateParams::errNode_out);
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

}  // extern "C"

#undef REAL
