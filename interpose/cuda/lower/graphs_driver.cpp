// The driver's functions about graphs. See graphs.h; their nodes are in graph_nodes_driver.cpp.
#include "interpose/cuda/lower/graph_calls.h"

namespace rt = cropdl::one_abi;
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
  return instantiate(REAL(cuGraphInstantiateWithFlags), out, of, flags, flags);
}
CUresult lower_cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph of,
                                            CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiate_with(REAL(cuGraphInstantiateWithParams), out, of, params,
                          &CUDA_GRAPH_INSTANTIATE_PARAMS::hUploadStream,
                          &CUDA_GRAPH_INSTANTIATE_PARAMS::hErrNode_out);
}
CUresult lower_cuGraphInstantiateWithParams_ptsz(CUgraphExec* out, CUgraph of,
                                                 CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiate_with(REAL(cuGraphInstantiateWithParams_ptsz), out, of, params,
                          &CUDA_GRAPH_INSTANTIATE_PARAMS::hUploadStream,
                          &CUDA_GRAPH_INSTANTIATE_PARAMS::hErrNode_out);
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

}  // extern "C"

#undef REAL
