// The steps of an instantiated graph, with child graphs expanded.
#pragma once

#include "gpu_state/software/device/graphs.h"

namespace cropdl::device {

struct Step {
  Work work;
  CUcontext context = nullptr;
  bool is_enabled = true;
  size_t before = 0;          // number of steps that must be done first
  std::vector<size_t> after;  // steps that wait for this one
};

struct Plan {
  std::vector<Step> steps;            // in topological order
  std::shared_ptr<CUgraph_st> graph;  // kept alive: the steps refer to it
  std::vector<AllocateWork> left;     // allocations that the graph does not free
  std::vector<CUdeviceptr> freed;     // memory that the graph frees
};

// With capture_mutex() held. The graph has no cycles.
std::shared_ptr<const Plan> plan_of(const std::shared_ptr<CUgraph_st>& graph);

}  // namespace cropdl::device
