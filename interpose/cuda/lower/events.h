// Recording times of events across a restart. A restart records the recorded events again, so that waits for
// them end; the time between two of them stays the same. LH.
#pragma once

#include "base/result.h"

namespace cropdl::cuda {

// At a cut, with idle devices: stores each event's age with it. The error is one line for users. MAIN.
Status note_event_times();
// After the image is written or given up. MAIN.
void resume_event_times();
// Records the program's recorded events once more, so that waits for them end. START.
Status record_events();
// After that. START.
void begin_event_times();

}  // namespace cropdl::cuda
