// Graphs (nodes of work with edges, made by calls or by capture) and their executable instances. Call all
// functions with capture_mutex() held unless their comment says otherwise. Sources: CUDA Driver API, "Graph
// Management"; CUDA C++ Programming Guide, "CUDA Graphs".
#pragma once

#include <map>
#include <optional>

#include "gpu_state/software/device/streams_queue.h"
#include "gpu_state/software/device/work.h"

struct CUgraphNode_st {
  uint64_t id = 0;  // unique in the process
  CUgraph_st* graph = nullptr;
  CUcontext context = nullptr;
  cropdl::device::Work work;
  std::shared_ptr<CUgraph_st> child;  // of a ChildWork
  struct Edge {
    CUgraphNode_st* node;
    CUgraphEdgeData data;
  };
  std::vector<Edge> before, after;  // in the order of creation
  bool is_enabled = true;           // in an instance: cuGraphNodeSetEnabled
  // Storage that the last query of the node's parameters returned pointers to.
  std::vector<void*> asked_pointers;
  std::vector<CUstreamBatchMemOpParams> asked_values;
  std::vector<CUmemAccessDesc> accesses;  // of a memory allocation: as given
  CUmemPoolProps pool_properties{};
  std::shared_ptr<void> reservation;  // of its memory (graphs_memory.h)
};

struct CUgraph_st : std::enable_shared_from_this<CUgraph_st> {
  CUgraph_st();
  ~CUgraph_st();
  uint64_t id = 0;
  std::vector<std::shared_ptr<CUgraphNode_st>> nodes;  // in the order of creation
  CUgraphNode_st* owner = nullptr;                     // the node whose child this graph is
  bool is_being_captured = false;
  int instances = 0;                            // a graph with memory nodes may have one
  std::map<CUuserObject, unsigned> references;  // held by this graph
  std::map<uint64_t, CUgraphNode_st*> cloned;   // id of the original -> its clone here
  uint64_t cloned_from = 0;                     // id of a graph
};

namespace cropdl::device {

struct Plan;  // graphs_run.h

}  // namespace cropdl::device

struct CUgraphExec_st {
  CUcontext context = nullptr;
  uint64_t flags = 0;
  uint64_t source = 0;                               // id of the graph that it was made from
  std::weak_ptr<CUgraph_st> counted;                 // the graph whose `instances` counts it
  std::shared_ptr<CUgraph_st> graph;                 // its own copy, changed by updates
  std::shared_ptr<const cropdl::device::Plan> plan;  // null: must be made again
  cropdl::device::MarkPointer last;                  // last launch; the next begins after it
};

namespace cropdl::device {

// Existing graphs and nodes. Also without the lock.
std::shared_ptr<CUgraph_st> find_graph(CUgraph handle);
std::shared_ptr<CUgraphNode_st> find_node(CUgraphNode handle);
std::shared_ptr<CUgraphExec_st> find_exec(CUgraphExec handle);

CUgraph create_graph();
// CUDA_ERROR_INVALID_VALUE: it does not exist, or belongs to a node or a capture.
CUresult destroy_graph(CUgraph handle);
std::shared_ptr<CUgraph_st> forget_graph(CUgraph_st& graph);  // also a node's or a capture's graph

CUgraphNodeType type_of(const Work& work);

// Checks the edges: nodes of that graph, none twice, known data; for a ReleaseWork, whether the memory may be
// freed there (graphs_memory.h). Clones a child graph into its node.
CUresult add_node(CUgraph_st& graph, const CUgraphNode* before, const CUgraphEdgeData* data, size_t count,
                  Work work, CUcontext context, CUgraphNode* handle);
// Adds a child node. `move` gives it the graph itself (CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE).
CUresult add_child(CUgraph_st& graph, const CUgraphNode* before, const CUgraphEdgeData* data, size_t count,
                   CUgraph child, bool move, CUcontext context, CUgraphNode* handle);
CUresult destroy_node(CUgraphNode handle);
CUresult add_edges(CUgraph_st& graph, const CUgraphNode* from, const CUgraphNode* to,
                   const CUgraphEdgeData* data, size_t count);
CUresult remove_edges(CUgraph_st& graph, const CUgraphNode* from, const CUgraphNode* to,
                      const CUgraphEdgeData* data, size_t count);

bool has_memory_nodes(const CUgraph_st& graph);              // in its children too
std::shared_ptr<CUgraph_st> clone(const CUgraph_st& graph);  // does not make it a handle
// Makes the graph and its nodes valid handles.
CUgraph publish(const std::shared_ptr<CUgraph_st>& graph);

// The nodes in topological order; nothing: there is a cycle.
std::optional<std::vector<CUgraphNode_st*>> in_order(const CUgraph_st& graph);

// graphs_exec.cpp.
CUresult instantiate(CUgraph graph, CUcontext context, uint64_t flags, CUgraphExec* handle,
                     CUgraphInstantiateResult* result, CUgraphNode* wrong);
CUresult destroy_exec(CUgraphExec handle);
CUresult update(CUgraphExec_st& exec, CUgraph graph, CUgraphExecUpdateResultInfo* info);
// The exec's node for a node of the source graph; null: none.
CUgraphNode_st* own_node(const CUgraphExec_st& exec, const CUgraphNode_st& node);
// Replaces a node's work; CUDA_ERROR_INVALID_VALUE: this change is not allowed.
CUresult set_work(CUgraphExec_st& exec, const CUgraphNode_st& node, Work work, CUcontext context);

// The same for the nodes of a child graph, which must have the same shape as before.
CUresult set_child(CUgraphExec_st& exec, const CUgraphNode_st& node, CUgraph child);

// graphs_run.cpp. Without the lock.
CUresult launch_graph(CUgraphExec exec, CUstream stream);

}  // namespace cropdl::device
