// Memory that graphs allocate. Its address and its bytes of the device are reserved as long as somebody has
// its Reservation: the nodes that allocate it, wherever they were copied to, and launches of theirs that have
// not run; the program, from a launch that leaves it allocated until it frees it; and then that free, until
// it has run. The last one gives it back, so a program may destroy a graph before it frees what the graph
// left. Accessed it may be from an AllocateWork to a ReleaseWork, as streams come to them, each time with
// fresh contents. Any thread; takes memory_lock(). Sources: CUDA Driver API, cuGraphAddMemAllocNode,
// cuGraphAddMemFreeNode, cuGraphLaunch; CUDA C++ Programming Guide, "Graph Memory Nodes".
#pragma once

#include "gpu_state/software/device/allocation.h"
#include "gpu_state/software/device/graphs.h"

namespace cropdl::device {

// Let go without memory_lock().
using Reservation = std::shared_ptr<void>;

// Memory for a new allocation node of that graph. CUDA_ERROR_OUT_OF_MEMORY.
CUresult reserve_allocation(uint64_t graph, int device, size_t size, AllocateWork* work,
                            Reservation* reservation);
// Null: nobody has one.
Reservation reservation_of(CUdeviceptr address);

// Whether a free node may be added to that graph: CUDA_ERROR_INVALID_VALUE for what no node allocates, what
// is freed there already, and what is freed in the graph that owns it as well as in another.
CUresult check_free_in_graph(uint64_t graph, ReleaseWork* work);
void freed_in_graph(uint64_t graph, CUdeviceptr address);  // it was added

// What the program has: from a launch, at the call, to the call of its free.
bool is_left_allocated(CUdeviceptr address);
void now_left(CUdeviceptr address, CUcontext context);  // whose stream the launch was given to
Reservation now_freed(CUdeviceptr address);             // what the program had; null: nothing

// cuMemFree, at once. CUDA_ERROR_INVALID_VALUE: no launch left it, or that launch has not come to it yet.
CUresult release_left(CUdeviceptr address);

// All that launches of that context's left: it ends.
void release_left_of(CUcontext context);

// What streams do, with memory_lock() held.
CUresult open_for_graph(Allocation& allocation);   // CUDA_ERROR_INVALID_VALUE: it was not freed since
CUresult close_for_graph(Allocation& allocation);  // CUDA_ERROR_ILLEGAL_ADDRESS: it was freed before

// What a device's graphs hold (cuDeviceGetGraphMemAttribute), bytes: now, at most, as reserved.
struct GraphMemory {
  uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
};
GraphMemory graph_memory(int device);
void reset_graph_memory_high(int device, bool used);

}  // namespace cropdl::device
