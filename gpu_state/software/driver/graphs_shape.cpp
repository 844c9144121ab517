// Lists of nodes and edges of graphs; user objects. Source: CUDA Driver API 13.0, "Graph Management".
#include <cuda.h>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/graphs.h"
#include "gpu_state/software/device/user_objects.h"

using namespace cropdl;

namespace {

using Edge = CUgraphNode_st::Edge;

struct WholeEdge {
  CUgraphNode from, to;
  CUgraphEdgeData data;
};

// The API's convention for lists: without an array, returns the count; with one, fills it, sets the rest to
// null, and returns the number of entries.
template <class T, class Write>
CUresult hand_out(const std::vector<T>& all, bool has_room, size_t* count, Write write) {
  if (has_room)
    for (size_t i = 0; i < *count; ++i) write(i, i < all.size() ? &all[i] : nullptr);
  *count = has_room ? std::min(*count, all.size()) : all.size();
  return CUDA_SUCCESS;
}

bool is_plain(const CUgraphEdgeData& data) { return !data.type && !data.from_port && !data.to_port; }

// Fails if edge data exist but the caller has no array for them.
template <class T>
bool loses(const std::vector<T>& edges, bool has_room, const CUgraphEdgeData* data) {
  if (!has_room || data) return false;
  return !std::all_of(edges.begin(), edges.end(), [](const T& edge) { return is_plain(edge.data); });
}

CUresult edges_of(CUgraphNode handle, bool before, CUgraphNode* nodes, CUgraphEdgeData* data, size_t* count) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto node = device::find_node(handle);
  if (!node || !count || (data && !nodes)) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<Edge>& edges = before ? node->before : node->after;
  if (loses(edges, nodes != nullptr, data)) return CUDA_ERROR_LOSSY_QUERY;
  return hand_out(edges, nodes != nullptr, count, [&](size_t i, const Edge* edge) {
    nodes[i] = edge ? edge->node : nullptr;
    if (data) data[i] = edge ? edge->data : CUgraphEdgeData{};
  });
}

CUresult nodes_of(CUgraph handle, bool only_roots, CUgraphNode* nodes, size_t* count) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto graph = device::find_graph(handle);
  if (!graph || !count) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> all;
  for (const auto& node : graph->nodes)
    if (!only_roots || node->before.empty()) all.push_back(node.get());
  return hand_out(all, nodes != nullptr, count,
                  [&](size_t i, const CUgraphNode* node) { nodes[i] = node ? *node : nullptr; });
}

}  // namespace

extern "C" {

CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  if (!graph || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(device::capture_mutex());
  *graph = device::create_graph();
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  return device::destroy_graph(graph);
}

CUresult cuGraphClone(CUgraph* made, CUgraph original) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto graph = device::find_graph(original);
  if (!graph || !made) return CUDA_ERROR_INVALID_VALUE;
  if (device::has_memory_nodes(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  *made = device::publish(device::clone(*graph));
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode* found, CUgraphNode original, CUgraph clone) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto node = device::find_node(original);
  auto graph = device::find_graph(clone);
  if (!found || !node || !graph || graph->cloned_from != node->graph->id) return CUDA_ERROR_INVALID_VALUE;
  auto at = graph->cloned.find(node->id);
  if (at == graph->cloned.end() || !device::find_node(at->second)) return CUDA_ERROR_INVALID_VALUE;
  *found = at->second;
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto node = device::find_node(handle);
  if (!node || !type) return CUDA_ERROR_INVALID_VALUE;
  *type = device::type_of(node->work);
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return nodes_of(graph, false, nodes, count);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return nodes_of(graph, true, nodes, count);
}

CUresult cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                            size_t* count) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto graph = device::find_graph(handle);
  bool has_room = from && to;
  if (!graph || !count || !from != !to || (data && !has_room)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<WholeEdge> all;
  for (const auto& node : graph->nodes)
    for (const Edge& edge : node->after) all.push_back({node.get(), edge.node, edge.data});
  if (loses(all, has_room, data)) return CUDA_ERROR_LOSSY_QUERY;
  return hand_out(all, has_room, count, [&](size_t i, const WholeEdge* edge) {
    from[i] = edge ? edge->from : nullptr;
    to[i] = edge ? edge->to : nullptr;
    if (data) data[i] = edge ? edge->data : CUgraphEdgeData{};
  });
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data,
                                       size_t* count) {
  return edges_of(node, true, nodes, data, count);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data,
                                         size_t* count) {
  return edges_of(node, false, nodes, data, count);
}

CUresult cuGraphAddDependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* data, size_t count) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto graph = device::find_graph(handle);
  return graph ? device::add_edges(*graph, from, to, data, count) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphRemoveDependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData* data, size_t count) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto graph = device::find_graph(handle);
  return graph ? device::remove_edges(*graph, from, to, data, count) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroyNode(CUgraphNode node) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  return device::destroy_node(node);
}

CUresult cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy, unsigned count,
                            unsigned flags) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (!object || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
  return device::create_user_object(context, data, destroy, count, object);
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
  return device::retain_user_object(object, count);
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  return device::release_user_object(object, count);
}

CUresult cuGraphRetainUserObject(CUgraph handle, CUuserObject object, unsigned count, unsigned flags) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto graph = device::find_graph(handle);
  if (!graph || count == 0 || (flags & ~static_cast<unsigned>(CU_GRAPH_USER_OBJECT_MOVE)))
    return CUDA_ERROR_INVALID_VALUE;
  // Moved references come from the caller, so the total stays the same. Adding and removing one checks
  // whether the object exists.
  bool is_moved = flags & CU_GRAPH_USER_OBJECT_MOVE;
  if (CUresult error = device::retain_user_object(object, count); error != CUDA_SUCCESS) return error;
  if (is_moved)
    if (CUresult error = device::release_user_object(object, count); error != CUDA_SUCCESS) return error;
  graph->references[object] += count;
  return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph handle, CUuserObject object, unsigned count) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto graph = device::find_graph(handle);
  if (!graph || count == 0) return CUDA_ERROR_INVALID_VALUE;
  auto at = graph->references.find(object);
  if (at == graph->references.end() || at->second < count) return CUDA_ERROR_INVALID_VALUE;
  at->second -= count;
  if (at->second == 0) graph->references.erase(at);
  return device::release_user_object(object, count);
}

// The older forms, without edge data.
CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return cuGraphGetEdges_v2(graph, from, to, nullptr, count);
}
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  return cuGraphNodeGetDependencies_v2(node, nodes, nullptr, count);
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  return cuGraphNodeGetDependentNodes_v2(node, nodes, nullptr, count);
}
CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return cuGraphAddDependencies_v2(graph, from, to, nullptr, count);
}
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   size_t count) {
  return cuGraphRemoveDependencies_v2(graph, from, to, nullptr, count);
}

}  // extern "C"
