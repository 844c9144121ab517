// Memory that graphs allocate: addresses belong to nodes for good, and what a launch leaves allocated is
// remembered until somebody frees it. Any thread. Source: CUDA Driver API, cuGraphAddMemAllocNode,
// cuGraphAddMemFreeNode, cuGraphLaunch.
#pragma once

#include "gpu_state/software/device/graphs.h"

namespace cropdl::device {

// The address stays the nodes' as long as one of them has this; what is still allocated then stays so.
using Reservation = std::shared_ptr<void>;

// Memory for a new allocation node of that graph.
CUresult reserve_allocation(uint64_t graph, int device, size_t size, AllocateWork* work);
// Who keeps the address of such a work. Null: not of a graph.
Reservation reservation_of(const AllocateWork& work);

// Whether a free node may be added to that graph: CUDA_ERROR_INVALID_VALUE for what no node allocates, what
// is freed there already, and what is freed in the graph that owns it as well as in another.
CUresult free_in_graph(uint64_t graph, CUdeviceptr address, ReleaseWork* work);

// A launch, or a free in stream order, at the call.
bool is_left_allocated(CUdeviceptr address);
void now_allocated(CUdeviceptr address);
void now_freed(CUdeviceptr address);  // any address

}  // namespace cropdl::device
