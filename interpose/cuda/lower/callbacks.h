// Host functions of the program, which the library calls when what was launched before is done: on a thread
// of the library's own, where no code of the program can run. So the library calls a function of ours there,
// which waits until the program's thread for them (interpose/cuda/upper/callbacks.h) has run the program's.
// LH.
#pragma once

#include <cstdint>

#include "interpose/libraries/library.h"

namespace cropdl::cuda {

// What the library is given in the place of the program's function, with its data.
struct HostFunction;
// A graph's: may be called any number of times, and lives as long as the process.
HostFunction* host_function(void (*function)(void*), void* data);
void forget_host_function(HostFunction* host_function);  // that is called no more
void call_host_function(void* host_function);            // on any thread of the library

// Around a launch of a graph that may have host nodes, by a thread of the program. False: the program is to
// stop first, and the thread must leave the LH and call again.
bool begin_calling_graph();
void end_calling_graph();

// MAIN, while the program is stopped: since when its thread for host functions has kept it from that; else
// now (monotonic_us).
int64_t callbacks_awaited_since();

// CUDA's shims' own calls (interpose/seam/cuda_shims.h).
libraries::Library::Table shim_calls();

}  // namespace cropdl::cuda
