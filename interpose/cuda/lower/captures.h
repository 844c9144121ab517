// Captures of streams into graphs. A capture refuses checkpoints while it is under way. LH, LH FS base,
// threads of the program.
#pragma once

namespace cropdl::cuda {

// Whether the program has ever begun a capture. Most programs never do, and then no stream is queried.
extern bool captures_expected;
void end_captures_of(int device);  // the device is reset: captures of its streams end without a graph
bool captures_under_way();         // in any stream of the process

}  // namespace cropdl::cuda
