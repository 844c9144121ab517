// Host functions of the program (cudaLaunchHostFunc, stream callbacks, host nodes of graphs). The library
// calls them after earlier work has ended, on a thread of its own, where code of the program cannot run. So
// the library gets call_host_function(), which blocks until the program's callback thread
// (interpose/cuda/upper/callbacks.h) has run the program's function. LH.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/libraries/library.h"

namespace cropdl::cuda {

// Passed to the library in place of the program's function and data.
struct HostFunction;
// A host function of a graph: may be called any number of times, and stays valid as long as the process.
HostFunction* host_function(void (*function)(void*), void* data);
void forget_host_function(HostFunction* host_function);  // once no call can follow
void call_host_function(void* host_function);            // any thread of the library

// A host node of a graph: its function and data. host_node() replaces the program's by ours,
// program_host_node() restores them.
struct HostNode {
  void (*function)(void*);
  void* data;
};
void host_node(HostNode& node);
void program_host_node(HostNode& node);
extern std::atomic<bool> any_host_node;  // the library has ever got one

// Enclose the launch of a graph that may have host nodes. Threads of the program. begin_calling_graph()
// returns false if the program is to stop first: leave the LH and call again.
bool begin_calling_graph();
void end_calling_graph();

// Since when (monotonic_us) the callback thread delays the stop; else now. MAIN, the program is stopped.
int64_t callbacks_awaited_since();

// The calls that CUDA's shims make themselves (interpose/seam/cuda_shims.h).
libraries::Library::Table shim_calls();

}  // namespace cropdl::cuda
