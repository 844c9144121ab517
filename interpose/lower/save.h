// What a stopped program consists of, from all who know a part of it, into an image. LH FS base, MAIN while
// the program is stopped.
#pragma once

#include <string>

#include "base/result.h"
#include "coord/local_rank.h"
#include "interpose/lower/memory_map.h"
#include "interpose/lower/metadata.h"

namespace cropdl::lower {

// What has to stand still to be told: attributes, descriptors, flags of memory. "" or one line naming what
// stands in the way of a checkpoint. Before anything is drained or written, so that a refusal costs the job
// next to nothing.
std::string look_at_stopped_program();

// --- The stages of this rank's part of a version (docs/saving.md).

struct Snapshot {
  Metadata metadata;     // all but the memory's state
  ProgramMemory memory;  // where it is, and what else to know of it; its bytes are read by persist()
};

// What has to be noted, and copied, while nothing runs: all ranks have stopped. `directory`: the version's.
Result<Snapshot> take_snapshot(const std::string& directory);

// Reads the memory where the snapshot says it is, and makes all of it durable in `sink`.
Result<restart::ImageTotals> persist(Snapshot& snapshot, restart::ChunkSink& sink);

// The stages one after the other, to an image in the directory: what a stopped rank is asked for today.
Result<coord::ImageSummary> save_image(const std::string& directory);

}  // namespace cropdl::lower
