// How fast a store's disk takes images. Rank 0's lower half (LH FS base) and tools; any thread.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "base/result.h"

namespace cropdl::restart {

// Writes a file of so many bytes, which cannot be compressed, into the directory, as an image is written, and
// makes it durable. Returns bytes per second. The file has lost its name before it is written, so nothing
// stays (on NFS, where a node that crashes leaves `.nfs…`). After a request to `stop`, 32 MB at most are
// waited for, and the error is ECANCELED's; other errors are errno_text()'s too. SIGXFSZ must be blocked or
// ignored: beyond a limit for files' sizes this fails.
Result<double> measure_disk(const std::string& directory, uint64_t bytes, const std::stop_token& stop = {});

}  // namespace cropdl::restart
