// Devices' primary contexts. The program's handle of one stands for the primary context of the current run,
// found by the device. LH, LH FS base, any thread.
#pragma once

#include <cuda.h>

#include "base/result.h"

namespace cropdl::cuda {

// The program's handle of the device's primary context `real`.
uint64_t primary_word(CUcontext real, int device);
// Makes the device's primary context current in the calling thread, for programs without the runtime.
bool make_primary_current(int device);
// Returns the device's primary context and keeps one reference to it for this run, as if the program had
// retained it. Null: not available.
CUcontext hold_primary(int device);
// Ends one reference of the program. If the context ends with it, `ended` is called, before another thread
// can retain it anew.
CUresult release_primary(int device, void (*ended)(int device));
// START, before any object is made: creates the primary contexts of the devices that the program used, and
// makes the runtime use them as before. The references of this run stay until let_contexts_go().
Status hold_contexts();

}  // namespace cropdl::cuda
