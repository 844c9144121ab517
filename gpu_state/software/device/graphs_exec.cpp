// Instantiated graphs and their updates.
#include <algorithm>

#include "gpu_state/software/device/graphs.h"
#include "gpu_state/software/device/live.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

Live<CUgraphExec_st>& live_execs() {
  static auto* live = new Live<CUgraphExec_st>;
  return *live;
}

bool has_circle(const CUgraph_st& graph) {
  if (!in_order(graph)) return true;
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const auto& node) { return node->child && has_circle(*node->child); });
}

// "The CUDA device(s) to which the operand(s) was allocated/mapped cannot change."
bool are_others(int device, int other) { return device >= 0 && other >= 0 && device != other; }

bool is_row(const CopyWork& work) { return work.copy.Height <= 1 && work.copy.Depth <= 1; }

int wanted_priority(const KernelWork& work) {
  int priority = 0;
  for (const CUlaunchAttribute& attribute : work.attributes)
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PRIORITY) priority = attribute.value.priority;
  return priority;
}

// Whether an instantiated node may get these parameters: the limitations listed for cuGraphExecUpdate.
// Returns the reason if not.
CUgraphExecUpdateResult check_change(const CUgraphExec_st& exec, const CUgraphNode_st& own, const Work& work,
                                     CUcontext context) {
  if (type_of(own.work) != type_of(work) || own.work.index() != work.index())
    return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  if (own.context != context)
    return std::holds_alternative<KernelWork>(work) ? CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE
                                                    : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  if (auto* kernel = std::get_if<KernelWork>(&work)) {
    const auto& before = std::get<KernelWork>(own.work);
    if (before.cooperative != kernel->cooperative ||
        ((exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) &&
         wanted_priority(before) != wanted_priority(*kernel)))
      return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
  }
  if (auto* copy = std::get_if<CopyWork>(&work)) {
    const auto& before = std::get<CopyWork>(own.work);
    if (before.copy.srcMemoryType != copy->copy.srcMemoryType ||
        before.copy.dstMemoryType != copy->copy.dstMemoryType ||
        are_others(before.from_device, copy->from_device) || are_others(before.to_device, copy->to_device))
      return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  }
  if (auto* memset = std::get_if<MemsetWork>(&work)) {
    const auto& before = std::get<MemsetWork>(own.work);
    bool same_shape = before.width == memset->width && before.height == memset->height &&
                      before.pitch == memset->pitch && before.element == memset->element;
    if (before.height != memset->height || (before.height > 1 && !same_shape) ||
        are_others(before.device, memset->device))
      return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  }
  // The address of an allocation node never changes.
  if (auto* allocate = std::get_if<AllocateWork>(&work)) {
    const auto& before = std::get<AllocateWork>(own.work);
    if (before.address != allocate->address || before.size != allocate->size)
      return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

// Pairs the nodes of `graph` with those of `own`: exit nodes in order, then backwards along the edges in
// order, as described for cuGraphExecUpdate.
struct Pairing {
  std::map<const CUgraphNode_st*, CUgraphNode_st*> own_of;  // key: a node of the new graph
  std::map<const CUgraphNode_st*, const CUgraphNode_st*> new_of;
  CUgraphExecUpdateResultInfo wrong{};

  bool fail(CUgraphExecUpdateResult why, CUgraphNode_st* node, CUgraphNode_st* from = nullptr) {
    wrong.result = why;
    wrong.errorNode = node;
    wrong.errorFromNode = from;
    return false;
  }

  static std::vector<CUgraphNode_st*> exits(const CUgraph_st& graph) {
    std::vector<CUgraphNode_st*> nodes;
    for (const auto& node : graph.nodes)
      if (node->after.empty()) nodes.push_back(node.get());
    return nodes;
  }

  bool pair(const CUgraph_st& own, const CUgraph_st& graph) {
    constexpr auto kChanged = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (own.nodes.size() != graph.nodes.size()) return fail(kChanged, nullptr);
    std::vector<CUgraphNode_st*> own_exits = exits(own), new_exits = exits(graph);
    if (own_exits.size() != new_exits.size())
      return fail(kChanged, new_exits.empty() ? nullptr : new_exits.back());
    std::vector<CUgraphNode_st*> todo;
    for (size_t i = 0; i < new_exits.size(); ++i) {
      own_of[new_exits[i]] = own_exits[i];
      new_of[own_exits[i]] = new_exits[i];
      todo.push_back(new_exits[i]);
    }
    for (size_t i = 0; i < todo.size(); ++i) {
      CUgraphNode_st *node = todo[i], *mine = own_of[node];
      if (node->before.size() != mine->before.size()) return fail(kChanged, node);
      for (size_t edge = 0; edge < node->before.size(); ++edge) {
        CUgraphNode_st *from = node->before[edge].node, *my_from = mine->before[edge].node;
        bool is_new = !own_of.count(from) && !new_of.count(my_from);
        if (is_new) {
          own_of[from] = my_from;
          new_of[my_from] = from;
          todo.push_back(from);
        } else if (!own_of.count(from) || own_of[from] != my_from) {
          return fail(kChanged, node, from);
        }
      }
    }
    for (const auto& node : graph.nodes)
      if (!own_of.count(node.get())) return fail(kChanged, node.get());
    return true;
  }

  bool check(const CUgraphExec_st& exec, const CUgraph_st& graph) {
    for (const auto& node : graph.nodes) {
      CUgraphNode_st* mine = own_of[node.get()];
      CUgraphExecUpdateResult result = check_change(exec, *mine, node->work, node->context);
      if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return fail(result, node.get());
    }
    return true;
  }
};

// Checks a whole level, including its child graphs, before anything is written.
bool pair_all(const CUgraphExec_st& exec, const CUgraph_st& own, const CUgraph_st& graph,
              std::vector<Pairing>* levels, CUgraphExecUpdateResultInfo* info) {
  Pairing level;
  if (!level.pair(own, graph) || !level.check(exec, graph)) {
    *info = level.wrong;
    return false;
  }
  for (const auto& node : graph.nodes)
    if (node->child && !pair_all(exec, *level.own_of[node.get()]->child, *node->child, levels, info))
      return false;
  levels->push_back(std::move(level));
  return true;
}

void write(const std::vector<Pairing>& levels) {
  for (const Pairing& level : levels)
    for (const auto& [node, mine] : level.own_of)
      if (!node->child) mine->work = node->work;
}

CUresult make_exec(const std::shared_ptr<CUgraph_st>& graph, CUcontext context, uint64_t flags,
                   CUgraphExec* handle) {
  auto exec = std::make_shared<CUgraphExec_st>();
  exec->context = context;
  exec->flags = flags;
  exec->source = graph->id;
  exec->graph = clone(*graph);
  exec->counted = graph;
  ++graph->instances;
  *handle = live_execs().add(std::move(exec));
  return CUDA_SUCCESS;
}

}  // namespace

std::shared_ptr<CUgraphExec_st> find_exec(CUgraphExec handle) { return live_execs().find(handle); }

CUresult instantiate(CUgraph handle, CUcontext context, uint64_t flags, CUgraphExec* exec,
                     CUgraphInstantiateResult* result, CUgraphNode* wrong) {
  *result = CUDA_GRAPH_INSTANTIATE_ERROR;
  *wrong = nullptr;
  constexpr uint64_t kKnown = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                              CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                              CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  auto graph = find_graph(handle);
  if (!graph || (flags & ~kKnown)) return CUDA_ERROR_INVALID_VALUE;
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) {
    settings::say_not_built("CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (graph->is_being_captured || graph->owner) return CUDA_ERROR_INVALID_VALUE;
  if (has_circle(*graph)) {
    *result = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (graph->instances && has_memory_nodes(*graph)) return CUDA_ERROR_INVALID_VALUE;
  *result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return make_exec(graph, context, flags, exec);
}

CUresult destroy_exec(CUgraphExec handle) {
  auto exec = live_execs().take(handle);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  if (auto graph = exec->counted.lock()) --graph->instances;
  exec->graph.reset();
  exec->plan.reset();
  return CUDA_SUCCESS;
}

CUgraphNode_st* own_node(const CUgraphExec_st& exec, const CUgraphNode_st& node) {
  const CUgraph_st* own = exec.graph.get();
  if (node.graph->id != exec.source) {
    if (!node.graph->owner) return nullptr;
    CUgraphNode_st* parent = own_node(exec, *node.graph->owner);
    if (!parent || !parent->child) return nullptr;
    own = parent->child.get();
  }
  auto at = own->cloned.find(node.id);
  return at == own->cloned.end() ? nullptr : at->second;
}

CUresult set_work(CUgraphExec_st& exec, const CUgraphNode_st& node, Work work, CUcontext context) {
  CUgraphNode_st* mine = own_node(exec, node);
  if (!mine || check_change(exec, *mine, work, context) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  if (auto* copy = std::get_if<CopyWork>(&work))  // cuGraphExecMemcpyNodeSetParams
    if (!is_row(*copy) || !is_row(std::get<CopyWork>(mine->work)) || copy->copy.WidthInBytes == 0)
      return CUDA_ERROR_INVALID_VALUE;
  mine->work = std::move(work);
  exec.plan.reset();
  return CUDA_SUCCESS;
}

CUresult set_child(CUgraphExec_st& exec, const CUgraphNode_st& node, CUgraph child_handle) {
  CUgraphNode_st* mine = own_node(exec, node);
  auto child = find_graph(child_handle);
  if (!mine || !mine->child || !child) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Pairing> levels;
  CUgraphExecUpdateResultInfo info{};
  if (!pair_all(exec, *mine->child, *child, &levels, &info)) return CUDA_ERROR_INVALID_VALUE;
  write(levels);
  exec.plan.reset();
  return CUDA_SUCCESS;
}

CUresult update(CUgraphExec_st& exec, CUgraph handle, CUgraphExecUpdateResultInfo* info) {
  *info = {};
  auto graph = find_graph(handle);
  if (!graph || graph->owner || graph->is_being_captured || has_circle(*graph)) {
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<Pairing> levels;
  if (!pair_all(exec, *exec.graph, *graph, &levels, info)) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  write(levels);
  exec.plan.reset();
  return CUDA_SUCCESS;
}

}  // namespace cropdl::device
