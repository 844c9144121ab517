// Whole graphs: their nodes and edges, clones, instances, and user objects. Source: CUDA Runtime API 13.0,
// "Graph Management".
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

CUgraphEdgeData* as_edges(cudaGraphEdgeData* edges) { return same<CUgraphEdgeData>(edges); }
const CUgraphEdgeData* as_edges(const cudaGraphEdgeData* edges) { return same<const CUgraphEdgeData>(edges); }

}  // namespace

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return run([&] { return cuGraphCreate(graph, flags); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return run([&] { return cuGraphDestroy(graph); });
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  return run([&] { return cuGraphClone(clone, graph); });
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original, cudaGraph_t clone) {
  return run([&] { return cuGraphNodeFindInClone(node, original, clone); });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return run([&] { return cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(type)); });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return run([&] { return cuGraphGetNodes(graph, nodes, count); });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return run([&] { return cuGraphGetRootNodes(graph, nodes, count); });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* edges, size_t* count) {
  return run([&] { return cuGraphGetEdges(graph, from, to, as_edges(edges), count); });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                         cudaGraphEdgeData* edges, size_t* count) {
  return run([&] { return cuGraphNodeGetDependencies(node, nodes, as_edges(edges), count); });
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                           cudaGraphEdgeData* edges, size_t* count) {
  return run([&] { return cuGraphNodeGetDependentNodes(node, nodes, as_edges(edges), count); });
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                     size_t count) {
  return run([&] { return cuGraphAddDependencies(graph, from, to, as_edges(edges), count); });
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                        size_t count) {
  return run([&] { return cuGraphRemoveDependencies(graph, from, to, as_edges(edges), count); });
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return run([&] { return cuGraphDestroyNode(node); });
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned flags) {
  return run([&] { return cuGraphDebugDotPrint(graph, path, flags); });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* instance, cudaGraph_t graph, unsigned long long flags) {
  return run([&] { return cuGraphInstantiateWithFlags(instance, graph, flags); });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* instance, cudaGraph_t graph,
                                          unsigned long long flags) {
  return run([&] { return cuGraphInstantiateWithFlags(instance, graph, flags); });
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t instance, unsigned long long* flags) {
  return run([&] { return cuGraphExecGetFlags(instance, reinterpret_cast<cuuint64_t*>(flags)); });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t instance) {
  return run([&] { return cuGraphExecDestroy(instance); });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t instance, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  return run([&] { return cuGraphExecUpdate(instance, graph, same<CUgraphExecUpdateResultInfo>(info)); });
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t instance, cudaGraphNode_t node, unsigned enabled) {
  return run([&] { return cuGraphNodeSetEnabled(instance, node, enabled); });
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t instance, cudaGraphNode_t node, unsigned* enabled) {
  return run([&] { return cuGraphNodeGetEnabled(instance, node, enabled); });
}

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph,
                                             unsigned value, unsigned flags) {
  return run([&] {
    CUcontext context = nullptr;
    cuCtxGetCurrent(&context);
    return cuGraphConditionalHandleCreate(reinterpret_cast<CUgraphConditionalHandle*>(handle), graph, context,
                                          value, flags);
  });
}

cudaError_t cudaDeviceGraphMemTrim(int device) {
  return run([&] { return cuDeviceGraphMemTrim(device); });
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  return run([&] {
    return cuDeviceGetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value);
  });
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  return run([&] {
    return cuDeviceSetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value);
  });
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* data, cudaHostFn_t destroy,
                                 unsigned references, unsigned flags) {
  return run([&] { return cuUserObjectCreate(object, data, destroy, references, flags); });
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return run([&] { return cuUserObjectRetain(object, count); });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return run([&] { return cuUserObjectRelease(object, count); });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                      unsigned flags) {
  return run([&] { return cuGraphRetainUserObject(graph, object, count, flags); });
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
  return run([&] { return cuGraphReleaseUserObject(graph, object, count); });
}
}
