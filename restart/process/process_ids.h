// Ids that the program got in its first run, with their values in this run (interpose/upper/ids.cpp
// translates). LH, main thread.
#pragma once

namespace cropdl::process {

// While an image is written: records the program's ids of its parent, group and session.
void note_ids();

// In a process that continues an image: records its own ids as those of the saved process.
void take_place_of_ids();

}  // namespace cropdl::process
