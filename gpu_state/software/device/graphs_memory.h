// Memory that graphs allocate. Its address and its bytes of the device stay reserved while any Reservation
// exists. Reservations are held by: the nodes that allocate it and their copies; their launches that have not
// run; the program, from a launch that leaves the memory allocated until the program frees it; that free,
// until it has run. The last one releases the memory, so a program may destroy a graph before it frees the
// graph's memory. The memory is accessible from an AllocateWork to a ReleaseWork, in stream order, each time
// with fresh contents. Any thread; takes memory_lock(). Sources: CUDA Driver API, cuGraphAddMemAllocNode,
// cuGraphAddMemFreeNode, cuGraphLaunch; CUDA C++ Programming Guide, "Graph Memory Nodes".
#pragma once

#include "gpu_state/software/device/allocation.h"
#include "gpu_state/software/device/work.h"

namespace cropdl::device {

// Release it without memory_lock().
using Reservation = std::shared_ptr<void>;

// Reserves memory for a new allocation node of that graph. CUDA_ERROR_OUT_OF_MEMORY.
CUresult reserve_allocation(uint64_t graph, int device, size_t size, AllocateWork* work,
                            Reservation* reservation);
// Null: no reservation exists.
Reservation reservation_of(CUdeviceptr address);

// Whether a free node may be added to that graph. CUDA_ERROR_INVALID_VALUE: no node allocates the memory, it
// is freed there already, or both the graph that owns it and another graph free it.
CUresult check_free_in_graph(uint64_t graph, ReleaseWork* work);
void freed_in_graph(uint64_t graph, CUdeviceptr address);  // the free node was added

// Memory that the program owns: from the call of a launch to the call of its free.
bool is_left_allocated(CUdeviceptr address);
void now_left(CUdeviceptr address, CUcontext context);  // the context of the launch's stream
Reservation now_freed(CUdeviceptr address);             // the program's reservation; null: none

// cuMemFree, immediate. CUDA_ERROR_INVALID_VALUE: no launch left the memory allocated, or that launch has not
// allocated it yet.
CUresult release_left(CUdeviceptr address);

// Frees all memory that the context's launches left allocated: the context ends.
void release_left_of(CUcontext context);

// Run by streams, with memory_lock() held.
CUresult open_for_graph(Allocation& allocation);   // CUDA_ERROR_INVALID_VALUE: still allocated
CUresult close_for_graph(Allocation& allocation);  // CUDA_ERROR_ILLEGAL_ADDRESS: already freed

// Bytes that a device's graphs hold (cuDeviceGetGraphMemAttribute): used and reserved, now and at most.
struct GraphMemory {
  uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
};
GraphMemory graph_memory(int device);
void reset_graph_memory_high(int device, bool used);

}  // namespace cropdl::device
