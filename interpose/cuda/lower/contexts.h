// Contexts, and the calling thread's stack of them. Only primary contexts have recipes (primary_contexts.h).
// LH, LH FS base, any thread.
#pragma once

#include <cuda.h>

namespace cropdl::cuda {

// The calling thread's current context; null: it has none. Real.
CUcontext current_context();
int device_of(CUcontext real);  // -1: it is no context
// The program's handle of a real context, whether the program made it or not; null for null.
CUcontext virtual_context(CUcontext real);

// Resets the calling thread's library state to that of a new thread: no context, the initial device, the
// default capture mode. `chooses`: the thread is about to choose a device.
void forget_thread(bool chooses);
// Part of forget_thread(): restores the attributes of the thread's own default stream.
void put_back_own_stream();
// A call of the runtime, or of a library over it, gives a thread without a context the context of its device,
// which later driver calls use. Records this as if the thread had chosen the device. False: no context yet.
bool note_context_of_thread();
// Records that the calling thread, whose device was reset, has no context; after its choice of a device.
void note_no_context_of_thread();

}  // namespace cropdl::cuda
