// Contexts. The program's handle of a device's primary context stands for that of whichever run, found again
// by the device; others have no recipe. LH, LH FS base, any thread.
#pragma once

#include <cuda.h>

#include "base/result.h"

namespace cropdl::cuda {

// The program's handle of a real context, whoever made it; null for null.
CUcontext virtual_context(CUcontext real);

// The device's primary context is current in this thread of the library; for programs that use no runtime.
bool make_primary_current(int device);
// The device's primary context, of which this run keeps one use as if the program had retained it; null: it
// cannot be had.
CUcontext hold_primary(int device);
// What the calling thread of the library holds is that of one which has called nothing yet: no context, the
// device that such a thread begins with, the usual mode of captures. `chooses`: it is about to choose a
// device.
void forget_thread(bool chooses);
void put_back_own_stream();  // its part: attributes of the default stream of its own
// A call of the runtime, or of a library that uses it, gives a thread without a context that of its device,
// which calls of the driver then use. Notes it, as if the thread had chosen the device; false: it has none
// yet.
bool note_context_of_thread();
// START, before anything is made: the primary contexts of the devices that the program used are there, until
// let_contexts_go() for this run's sake; the runtime holds them as it did before.
Status hold_contexts();

}  // namespace cropdl::cuda
