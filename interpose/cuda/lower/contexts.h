// Contexts, and the calling thread's stack. Only primary ones have recipes. LH, LH FS base, any thread.
#pragma once

#include <cuda.h>

#include "base/result.h"

namespace cropdl::cuda {

// The calling thread's current context; null: it has none. Real.
CUcontext current_context();
int device_of(CUcontext real);  // -1: it is no context
// The program's handle of a real context, whether the program made it or not; null for null.
CUcontext virtual_context(CUcontext real);

// Restores the attributes of the thread's own default stream, as part of forgetting what a thread has set.
void put_back_own_stream();
// Records that the calling thread, whose device was reset, has no context; after its choice of a device.
void note_no_context_of_thread();

// --- Devices' primary contexts. The program's handle stands for this run's, found by the device.

// The program's handle of the device's primary context `real`.
uint64_t primary_word(CUcontext real, int device);
// Makes the device's primary context current in the calling thread, for programs without the runtime.
bool make_primary_current(int device);
// Returns the device's primary context and keeps one reference to it for this run, as if the program had
// retained it. Null: not available.
CUcontext hold_primary(int device);
// START, before any object is made: creates the primary contexts of the devices that the program used, and
// makes the runtime use them as before. The references of this run stay until let_contexts_go().
Status hold_contexts();

}  // namespace cropdl::cuda
