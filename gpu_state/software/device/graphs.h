// Graphs: nodes of work with edges, made by hand or by capture, and what is made of them to be run. All
// functions are called with capture_mutex() held where their comment does not say otherwise. Sources: CUDA
// Driver API, "Graph Management"; CUDA C++ Programming Guide, "CUDA Graphs".
#pragma once

#include <map>
#include <optional>

#include "gpu_state/software/device/streams.h"

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
  std::vector<Edge> before, after;  // in the order in which they were made
  bool is_enabled = true;           // in what was instantiated: cuGraphNodeSetEnabled
  // What the last question for its parameters pointed to.
  std::vector<void*> asked_pointers;
  std::vector<CUstreamBatchMemOpParams> asked_values;
  std::vector<CUmemAccessDesc> accesses;  // of a memory allocation: as they were given
  CUmemPoolProps pool_properties{};
  std::shared_ptr<void> reservation;  // of its memory: graphs_memory.h
};

struct CUgraph_st : std::enable_shared_from_this<CUgraph_st> {
  CUgraph_st();
  ~CUgraph_st();
  uint64_t id = 0;
  std::vector<std::shared_ptr<CUgraphNode_st>> nodes;  // in the order in which they were made
  CUgraphNode_st* owner = nullptr;                     // the node that this graph is the child of
  bool is_being_captured = false;
  int instances = 0;                            // of a graph with memory nodes there may be one
  std::map<CUuserObject, unsigned> references;  // that this graph holds
  std::map<uint64_t, CUgraphNode_st*> cloned;   // id of the original -> its clone here
  uint64_t cloned_from = 0;                     // id of a graph
};

namespace cropdl::device {

struct Plan;  // graphs_run.h

}  // namespace cropdl::device

struct CUgraphExec_st {
  CUcontext context = nullptr;
  uint64_t flags = 0;
  uint64_t source = 0;                               // id of the graph it was made of
  std::weak_ptr<CUgraph_st> counted;                 // whose `instances` it is counted in
  std::shared_ptr<CUgraph_st> graph;                 // its own copy, changed by updates
  std::shared_ptr<const cropdl::device::Plan> plan;  // null: to be made again
  cropdl::device::MarkPointer last;                  // its last launch: the next begins after it
};

namespace cropdl::device {

// Graphs and nodes that live. Without the lock too.
std::shared_ptr<CUgraph_st> find_graph(CUgraph handle);
std::shared_ptr<CUgraphNode_st> find_node(CUgraphNode handle);
std::shared_ptr<CUgraphExec_st> find_exec(CUgraphExec handle);

CUgraph create_graph();
// CUDA_ERROR_INVALID_VALUE: there is none, or it is a node's or a capture's.
CUresult destroy_graph(CUgraph handle);
std::shared_ptr<CUgraph_st> forget_graph(CUgraph_st& graph);  // whatever it is

CUgraphNodeType type_of(const Work& work);

// Edges are checked: nodes of that graph, none twice, known data; of a ReleaseWork, whether it may be freed
// there (graphs_memory.h). A child graph is cloned into its node.
CUresult add_node(CUgraph_st& graph, const CUgraphNode* before, const CUgraphEdgeData* data, size_t count,
                  Work work, CUcontext context, CUgraphNode* handle);
// Of a child node: `move` gives it the graph itself (CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE).
CUresult add_child(CUgraph_st& graph, const CUgraphNode* before, const CUgraphEdgeData* data, size_t count,
                   CUgraph child, bool move, CUcontext context, CUgraphNode* handle);
CUresult destroy_node(CUgraphNode handle);
CUresult add_edges(CUgraph_st& graph, const CUgraphNode* from, const CUgraphNode* to,
                   const CUgraphEdgeData* data, size_t count);
CUresult remove_edges(CUgraph_st& graph, const CUgraphNode* from, const CUgraphNode* to,
                      const CUgraphEdgeData* data, size_t count);

bool has_memory_nodes(const CUgraph_st& graph);              // in its children too
std::shared_ptr<CUgraph_st> clone(const CUgraph_st& graph);  // not among those that live
// Makes it and its nodes handles.
CUgraph publish(const std::shared_ptr<CUgraph_st>& graph);

// Nodes so that each comes after those before it; nothing: there is a circle.
std::optional<std::vector<CUgraphNode_st*>> in_order(const CUgraph_st& graph);

// graphs_exec.cpp.
CUresult instantiate(CUgraph graph, CUcontext context, uint64_t flags, CUgraphExec* handle,
                     CUgraphInstantiateResult* result, CUgraphNode* wrong);
CUresult destroy_exec(CUgraphExec handle);
CUresult update(CUgraphExec_st& exec, CUgraph graph, CUgraphExecUpdateResultInfo* info);
// The exec's own node for a node of the graph that it was made of; null: none.
CUgraphNode_st* own_node(const CUgraphExec_st& exec, const CUgraphNode_st& node);
// Whether that node may become this; what is not allowed is CUDA_ERROR_INVALID_VALUE.
CUresult set_work(CUgraphExec_st& exec, const CUgraphNode_st& node, Work work, CUcontext context);

// The same for the nodes of a child graph, which has the shape of the one that was there.
CUresult set_child(CUgraphExec_st& exec, const CUgraphNode_st& node, CUgraph child);

// graphs_run.cpp. Without the lock.
CUresult launch_graph(CUgraphExec exec, CUstream stream);

}  // namespace cropdl::device
