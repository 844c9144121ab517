// Recording times of events across a restart. A restart records the recorded events again, so that waits for
// them end; the time between two of them stays the same. LH.
#pragma once

namespace cropdl::cuda {

// At a cut, with idle devices: stores each event's age with it. MAIN.
void note_event_times();
// After the image is written or given up. MAIN.
void resume_event_times();
// After the events were recorded again. START.
void begin_event_times();

}  // namespace cropdl::cuda
