// What a stopped program consists of, from all who know a part of it, into an image. LH FS base, MAIN while
// the program is stopped.
#pragma once

#include <string>

#include "base/result.h"
#include "coord/local_rank.h"

namespace cropdl::lower {

// What has to stand still to be told: attributes, descriptors, flags of memory. "" or one line naming what
// stands in the way of a checkpoint. Before anything is drained or written, so that a refusal costs the job
// next to nothing.
std::string look_at_stopped_program();

// Writes this rank's image into the directory. All ranks have stopped.
Result<coord::ImageSummary> save_image(const std::string& directory);

}  // namespace cropdl::lower
