// Graphs under construction: nodes and edges.
#include "gpu_state/software/device/graphs.h"

#include <algorithm>
#include <set>

#include "gpu_state/software/device/graphs_memory.h"
#include "gpu_state/software/device/live.h"
#include "gpu_state/software/device/user_objects.h"

namespace {
std::atomic<uint64_t> next_graph_id{1};
std::atomic<uint64_t> next_node_id{1};
}  // namespace

CUgraph_st::CUgraph_st() : id(next_graph_id++) {}
CUgraph_st::~CUgraph_st() {
  for (auto [object, count] : references) cropdl::device::release_user_object(object, count);
}

namespace cropdl::device {

namespace {

using Edge = CUgraphNode_st::Edge;

Live<CUgraph_st>& live_graphs() {
  static auto* live = new Live<CUgraph_st>;
  return *live;
}
Live<CUgraphNode_st>& live_nodes() {
  static auto* live = new Live<CUgraphNode_st>;
  return *live;
}

bool has_edge(const CUgraphNode_st& from, const CUgraphNode_st* to) {
  return std::any_of(from.after.begin(), from.after.end(), [&](const Edge& e) { return e.node == to; });
}

// Ports and types of edges: cuda.h, CUgraphEdgeData. An edge that lets a kernel start early is stored, but
// treated as an ordinary one, which is allowed.
bool is_known(const CUgraphEdgeData& data, const CUgraphNode_st& from, const CUgraphNode_st& to) {
  static const unsigned char kZero[sizeof data.reserved] = {};
  if (!std::equal(kZero, kZero + sizeof kZero, data.reserved) || data.to_port != 0) return false;
  bool is_from_kernel = std::holds_alternative<KernelWork>(from.work);
  if (data.from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER || (data.from_port && !is_from_kernel))
    return false;
  if (data.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT) return true;
  return data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC && is_from_kernel &&
         std::holds_alternative<KernelWork>(to.work);
}

void connect(CUgraphNode_st& from, CUgraphNode_st& to, CUgraphEdgeData data) {
  from.after.push_back({&to, data});
  to.before.push_back({&from, data});
}

void disconnect(CUgraphNode_st& from, CUgraphNode_st& to) {
  auto drop = [](std::vector<Edge>& edges, CUgraphNode_st* node) {
    edges.erase(std::remove_if(edges.begin(), edges.end(), [&](const Edge& e) { return e.node == node; }),
                edges.end());
  };
  drop(from.after, &to);
  drop(to.before, &from);
}

// Invalidates the handles and takes the graph apart, so that its nodes' objects are destroyed now.
void clear(CUgraph_st& graph) {
  for (const auto& node : graph.nodes) {
    if (node->child) forget_graph(*node->child);
    node->child.reset();
    node->work = EmptyWork{};
    node->reservation.reset();
    node->before.clear();
    node->after.clear();
    live_nodes().take(node.get());
  }
  graph.nodes.clear();
  for (auto [object, count] : graph.references) release_user_object(object, count);
  graph.references.clear();
}

bool is_memory_work(const Work& work) {
  return std::holds_alternative<AllocateWork>(work) || std::holds_alternative<ReleaseWork>(work);
}

CUresult attach(CUgraph_st& graph, std::shared_ptr<CUgraphNode_st> node, const CUgraphNode* before,
                const CUgraphEdgeData* data, size_t count, CUgraphNode* handle) {
  if (count && !before) return CUDA_ERROR_INVALID_VALUE;
  std::set<CUgraphNode> seen;
  for (size_t i = 0; i < count; ++i) {
    auto from = find_node(before[i]);
    if (!from || from->graph != &graph || !seen.insert(before[i]).second) return CUDA_ERROR_INVALID_VALUE;
    if (data && !is_known(data[i], *from, *node)) return CUDA_ERROR_INVALID_VALUE;
  }
  node->id = next_node_id++;
  node->graph = &graph;
  graph.nodes.push_back(node);
  for (size_t i = 0; i < count; ++i) connect(*before[i], *node, data ? data[i] : CUgraphEdgeData{});
  CUgraphNode made = live_nodes().add(std::move(node));
  if (handle) *handle = made;
  return CUDA_SUCCESS;
}

}  // namespace

std::shared_ptr<CUgraph_st> find_graph(CUgraph handle) { return live_graphs().find(handle); }
std::shared_ptr<CUgraphNode_st> find_node(CUgraphNode handle) { return live_nodes().find(handle); }

CUgraph publish(const std::shared_ptr<CUgraph_st>& graph) {
  for (const auto& node : graph->nodes) {
    live_nodes().add(node);
    if (node->child) publish(node->child);
  }
  return live_graphs().add(graph);
}

CUgraph create_graph() { return live_graphs().add(std::make_shared<CUgraph_st>()); }

CUresult destroy_graph(CUgraph handle) {
  auto graph = find_graph(handle);
  if (!graph || graph->owner || graph->is_being_captured) return CUDA_ERROR_INVALID_VALUE;
  forget_graph(*graph);
  return CUDA_SUCCESS;
}

std::shared_ptr<CUgraph_st> forget_graph(CUgraph_st& graph) {
  auto kept = live_graphs().take(&graph);
  if (kept) clear(*kept);
  return kept;
}

CUgraphNodeType type_of(const Work& work) {
  struct {
    CUgraphNodeType operator()(const EmptyWork&) { return CU_GRAPH_NODE_TYPE_EMPTY; }
    CUgraphNodeType operator()(const KernelWork&) { return CU_GRAPH_NODE_TYPE_KERNEL; }
    CUgraphNodeType operator()(const CopyWork&) { return CU_GRAPH_NODE_TYPE_MEMCPY; }
    CUgraphNodeType operator()(const MemsetWork&) { return CU_GRAPH_NODE_TYPE_MEMSET; }
    CUgraphNodeType operator()(const HostWork&) { return CU_GRAPH_NODE_TYPE_HOST; }
    // as with NVIDIA's library
    CUgraphNodeType operator()(const LibraryWork&) { return CU_GRAPH_NODE_TYPE_KERNEL; }
    CUgraphNodeType operator()(const RecordWork&) { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
    CUgraphNodeType operator()(const WaitWork&) { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
    CUgraphNodeType operator()(const AllocateWork&) { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
    CUgraphNodeType operator()(const ReleaseWork&) { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
    CUgraphNodeType operator()(const ValueWork&) { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
    // cannot be captured
    CUgraphNodeType operator()(const PrefetchWork&) { return CU_GRAPH_NODE_TYPE_EMPTY; }
    CUgraphNodeType operator()(const ChildWork&) { return CU_GRAPH_NODE_TYPE_GRAPH; }
  } type;
  return std::visit(type, work);
}

CUresult add_node(CUgraph_st& graph, const CUgraphNode* before, const CUgraphEdgeData* data, size_t count,
                  Work work, CUcontext context, CUgraphNode* handle) {
  auto node = std::make_shared<CUgraphNode_st>();
  node->context = context;
  node->work = std::move(work);
  if (auto* allocate = std::get_if<AllocateWork>(&node->work))
    node->reservation = reservation_of(allocate->address);
  auto* release = std::get_if<ReleaseWork>(&node->work);
  if (!release) return attach(graph, std::move(node), before, data, count, handle);
  if (CUresult error = check_free_in_graph(graph.id, release); error != CUDA_SUCCESS) return error;
  CUdeviceptr address = release->address;
  CUresult error = attach(graph, std::move(node), before, data, count, handle);
  if (error == CUDA_SUCCESS) freed_in_graph(graph.id, address);
  return error;
}

CUresult add_child(CUgraph_st& graph, const CUgraphNode* before, const CUgraphEdgeData* data, size_t count,
                   CUgraph child_handle, bool move, CUcontext context, CUgraphNode* handle) {
  auto child = find_graph(child_handle);
  if (!child || child->is_being_captured || child->owner || child.get() == &graph)
    return CUDA_ERROR_INVALID_VALUE;
  if (!move && has_memory_nodes(*child)) return CUDA_ERROR_NOT_SUPPORTED;
  if (move && child->instances) return CUDA_ERROR_INVALID_VALUE;
  auto node = std::make_shared<CUgraphNode_st>();
  node->context = context;
  node->child = move ? child : clone(*child);
  node->work = ChildWork{node->child.get()};
  node->child->owner = node.get();
  CUresult error = attach(graph, node, before, data, count, handle);
  if (error != CUDA_SUCCESS) {
    node->child->owner = nullptr;
    return error;
  }
  if (!move) publish(node->child);
  return CUDA_SUCCESS;
}

CUresult destroy_node(CUgraphNode handle) {
  auto node = find_node(handle);
  if (!node) return CUDA_ERROR_INVALID_VALUE;
  CUgraph_st& graph = *node->graph;
  if (graph.is_being_captured || has_memory_nodes(graph)) return CUDA_ERROR_INVALID_VALUE;
  while (!node->before.empty()) disconnect(*node->before.front().node, *node);
  while (!node->after.empty()) disconnect(*node, *node->after.front().node);
  if (node->child) forget_graph(*node->child);
  node->child.reset();
  node->work = EmptyWork{};
  graph.nodes.erase(std::find(graph.nodes.begin(), graph.nodes.end(), node));
  live_nodes().take(handle);
  return CUDA_SUCCESS;
}

CUresult add_edges(CUgraph_st& graph, const CUgraphNode* from, const CUgraphNode* to,
                   const CUgraphEdgeData* data, size_t count) {
  if (count && (!from || !to)) return CUDA_ERROR_INVALID_VALUE;
  std::set<std::pair<CUgraphNode, CUgraphNode>> seen;
  for (size_t i = 0; i < count; ++i) {
    auto a = find_node(from[i]), b = find_node(to[i]);
    if (!a || !b || a == b || a->graph != &graph || b->graph != &graph || has_edge(*a, b.get()) ||
        !seen.insert({from[i], to[i]}).second || (data && !is_known(data[i], *a, *b)))
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) connect(*from[i], *to[i], data ? data[i] : CUgraphEdgeData{});
  return CUDA_SUCCESS;
}

CUresult remove_edges(CUgraph_st& graph, const CUgraphNode* from, const CUgraphNode* to,
                      const CUgraphEdgeData* data, size_t count) {
  if (count && (!from || !to)) return CUDA_ERROR_INVALID_VALUE;
  if (count && has_memory_nodes(graph)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    auto a = find_node(from[i]), b = find_node(to[i]);
    if (!a || !b || a->graph != &graph || b->graph != &graph) return CUDA_ERROR_INVALID_VALUE;
    auto edge =
        std::find_if(a->after.begin(), a->after.end(), [&](const Edge& e) { return e.node == b.get(); });
    if (edge == a->after.end()) return CUDA_ERROR_INVALID_VALUE;
    CUgraphEdgeData wanted = data ? data[i] : CUgraphEdgeData{};
    if (edge->data.from_port != wanted.from_port || edge->data.to_port != wanted.to_port ||
        edge->data.type != wanted.type)
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) disconnect(*from[i], *to[i]);
  return CUDA_SUCCESS;
}

bool has_memory_nodes(const CUgraph_st& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    return is_memory_work(node->work) || (node->child && has_memory_nodes(*node->child));
  });
}

std::shared_ptr<CUgraph_st> clone(const CUgraph_st& graph) {
  auto result = std::make_shared<CUgraph_st>();
  result->cloned_from = graph.id;
  for (const auto& node : graph.nodes) {
    auto copy = std::make_shared<CUgraphNode_st>();
    copy->id = next_node_id++;
    copy->graph = result.get();
    copy->context = node->context;
    copy->work = node->work;
    copy->is_enabled = node->is_enabled;
    copy->accesses = node->accesses;
    copy->pool_properties = node->pool_properties;
    copy->reservation = node->reservation;
    if (node->child) {
      copy->child = clone(*node->child);
      copy->child->owner = copy.get();
      copy->work = ChildWork{copy->child.get()};
    }
    result->cloned[node->id] = copy.get();
    result->nodes.push_back(std::move(copy));
  }
  for (const auto& node : graph.nodes) {
    CUgraphNode_st* copy = result->cloned[node->id];
    for (const Edge& edge : node->before) copy->before.push_back({result->cloned[edge.node->id], edge.data});
    for (const Edge& edge : node->after) copy->after.push_back({result->cloned[edge.node->id], edge.data});
  }
  for (auto [object, count] : graph.references)
    if (retain_user_object(object, count) == CUDA_SUCCESS) result->references[object] = count;
  return result;
}

std::optional<std::vector<CUgraphNode_st*>> in_order(const CUgraph_st& graph) {
  std::map<const CUgraphNode_st*, size_t> missing;
  std::vector<CUgraphNode_st*> order;
  for (const auto& node : graph.nodes) {
    missing[node.get()] = node->before.size();
    if (node->before.empty()) order.push_back(node.get());
  }
  for (size_t i = 0; i < order.size(); ++i)
    for (const Edge& edge : order[i]->after)
      if (--missing[edge.node] == 0) order.push_back(edge.node);
  if (order.size() != graph.nodes.size()) return std::nullopt;
  return order;
}

}  // namespace cropdl::device
