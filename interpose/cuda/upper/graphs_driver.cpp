// The driver's functions that put functions of the program into graphs. They make the callback thread
// (callbacks.h) first. UH, any thread, UH FS base.
#include "interpose/gen/driver/undeclared.h"
//

#include "driver_functions.h"
#include "interpose/cuda/upper/host_nodes.h"

using cropdl::cuda_shim::call_with_thread;
namespace seam = cropdl::seam::driver;

namespace {
bool has_function(const CUgraphNodeParams* p) { return p && p->type == CU_GRAPH_NODE_TYPE_HOST; }
}  // namespace

extern "C" {

CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t n,
                        CUgraphNodeParams* params) {
  return call_with_thread<CUresult>(has_function(params), seam::kFn_cuGraphAddNode, node, graph, dependencies,
                                    n, params);
}
CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* edges, size_t n, CUgraphNodeParams* params) {
  return call_with_thread<CUresult>(has_function(params), seam::kFn_cuGraphAddNode_v2, node, graph,
                                    dependencies, edges, n, params);
}
CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return call_with_thread<CUresult>(has_function(params), seam::kFn_cuGraphNodeSetParams, node, params);
}
CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  return call_with_thread<CUresult>(has_function(params), seam::kFn_cuGraphExecNodeSetParams, exec, node,
                                    params);
}
CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t n,
                            const CUDA_HOST_NODE_PARAMS* params) {
  return call_with_thread<CUresult>(true, seam::kFn_cuGraphAddHostNode, node, graph, dependencies, n, params);
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return call_with_thread<CUresult>(true, seam::kFn_cuGraphHostNodeSetParams, node, params);
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* params) {
  return call_with_thread<CUresult>(true, seam::kFn_cuGraphExecHostNodeSetParams, exec, node, params);
}
CUresult cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy, unsigned count,
                            unsigned flags) {
  return call_with_thread<CUresult>(true, seam::kFn_cuUserObjectCreate, object, data, destroy, count, flags);
}

}  // extern "C"
