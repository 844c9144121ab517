// When events were recorded, over a restart. A restart records those that were recorded once more, so that
// waits for them end; the time between two of them stays what it was. LH.
#pragma once

namespace cropdl::cuda {

// At a cut, the devices being idle: how long ago each was recorded, kept with it. MAIN.
void note_event_times();
// It is saved, or given up. MAIN.
void resume_event_times();
// They were recorded again. START.
void begin_event_times();

}  // namespace cropdl::cuda
