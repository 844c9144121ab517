// What the cropdl command asks of a running job. Tools only; blocks; any thread.
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

// Asks the job that runs on `directory` for a checkpoint and returns when the version is durable. If the job
// is dead, does not answer or is already checkpointing, the error comes within `answer_within_seconds` (a
// dead job's at once); once the job has accepted, there is no limit: it bounds its attempts itself, and its
// end is noticed. `waiting` is called, again and again, with a line that says what a request that takes long
// waits for. `last`: the job ends behind the version (docs/end.md).
Result<CheckpointReply> request_checkpoint(const std::string& directory, double answer_within_seconds,
                                           bool last,
                                           const std::function<void(const std::string&)>& waiting = {});

struct JobStatus {
  int pid;
  std::string host;
  std::string started;  // ISO 8601, UTC
  uint32_t ranks;
  uint32_t joined;  // ranks that a checkpoint could include now
  std::string phase;
  uint64_t last_version;     // published by this run, 0: none
  std::string last_failure;  // line of the last checkpoint that failed, or ""
  uint64_t iteration;        // complete ones of rank 0, 0: none are known
  uint64_t iteration_us;     // 0: not known
};
Result<JobStatus> job_status(const std::string& directory, double answer_within_seconds = 4);

}  // namespace cropdl::coord
