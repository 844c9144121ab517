// Requests of the cropdl command to a running job. Tools only; blocks; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace cropdl::coord {

struct CheckpointReply {
  uint64_t version;
  uint64_t bytes;  // of all images
  double stall_seconds;
};

// Requests a checkpoint of the job on `directory`; returns when the version is durable. If the job is dead,
// silent or already checkpointing, fails within `answer_within_seconds` (immediately for a dead job). Once
// the job has accepted there is no limit: it bounds its own attempts, and its end is noticed. `waiting` is
// called repeatedly with a line on what a long request waits for. `last`: the job ends after the version
// (docs/end.md).
Result<CheckpointReply> request_checkpoint(const std::string& directory, double answer_within_seconds,
                                           bool last,
                                           const std::function<void(const std::string&)>& waiting = {});

struct JobStatus {
  int pid;
  std::string host;
  std::string started;  // ISO 8601, UTC
  uint32_t ranks;
  uint32_t joined;  // ranks that can be checkpointed now
  std::string phase;
  uint64_t last_version;     // by this run, 0: none
  std::string last_failure;  // line of the last failed checkpoint, or ""
  uint64_t iteration;        // completed iterations of rank 0, 0: unknown
  uint64_t iteration_us;     // 0: unknown
};
Result<JobStatus> job_status(const std::string& directory, double answer_within_seconds = 4);

}  // namespace cropdl::coord
