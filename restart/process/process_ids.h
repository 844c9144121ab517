// The ids that the program was told in its first run, beside those of this one (interpose/upper/ids.cpp
// translates). LH, main thread.
#pragma once

namespace cropdl::process {

// While an image is written: what the program knows as its parent, group and session.
void note_ids();

// In a process that continues an image: it stands for the one that was saved.
void take_place_of_ids();

}  // namespace cropdl::process
