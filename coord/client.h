// Requests of the cropdl command to a running job. Tools only; blocks; any thread.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "coord/wire.h"

namespace cropdl::coord {

// Requests a checkpoint of the job on `directory`; returns when the version is durable. If the job is dead,
// silent or already checkpointing, fails within `answer_within_seconds` (immediately for a dead job). Once
// the job has accepted there is no limit: it bounds its own attempts, and its end is noticed. `waiting` is
// called repeatedly with a line on what a long request waits for. `last`: the job ends after the version
// (docs/end.md).
Result<Outcome> request_checkpoint(const std::string& directory, double answer_within_seconds, bool last,
                                   const std::function<void(const std::string&)>& waiting = {});

struct JobStatus : StatusIs {
  std::string started;  // ISO 8601, UTC
};
Result<JobStatus> job_status(const std::string& directory, double answer_within_seconds = 4);

}  // namespace cropdl::coord
