// What an instantiated graph comes down to when it runs: steps, child graphs taken apart into theirs.
#pragma once

#include "gpu_state/software/device/graphs.h"

namespace cropdl::device {

struct Step {
  Work work;
  CUcontext context = nullptr;
  bool is_enabled = true;
  size_t before = 0;          // how many steps must be done first
  std::vector<size_t> after;  // which wait for this one
};

struct Plan {
  std::vector<Step> steps;            // each after those that it waits for
  std::shared_ptr<CUgraph_st> graph;  // kept: what it refers to
  std::vector<AllocateWork> left;     // allocations that it does not free
  std::vector<CUdeviceptr> freed;     // what it frees
};

// With capture_mutex(). The graph has no circles.
std::shared_ptr<const Plan> plan_of(const std::shared_ptr<CUgraph_st>& graph);

}  // namespace cropdl::device
