// Requests of the cropdl command to a running job. Tools only; blocks; any thread.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "coord/wire.h"

namespace cropdl::coord {

// Called with a line on what a long request waits for.
using Waits = std::function<void(const std::string&)>;

// Requests a checkpoint of the job on `directory`; returns when the version is durable. Fails immediately if
// the job is dead or already checkpointing, within `answer_within_seconds` if it is stopped, else within a
// minute without answer. Once the job has accepted there is no limit: it bounds its own attempts, and its end
// is noticed. `waiting` is called repeatedly. `last`: the job ends after the version (docs/end.md).
Result<Outcome> request_checkpoint(const std::string& directory, double answer_within_seconds, bool last,
                                   const Waits& waiting = {});

struct JobStatus : StatusIs {
  std::string started;  // ISO 8601, UTC
};
Result<JobStatus> job_status(const std::string& directory, double answer_within_seconds = 4,
                             const Waits& waiting = {});

}  // namespace cropdl::coord
