// DIR/job, by which ranks and the cropdl command find the job running on a directory. JSON, mode 0600,
// appears by rename. Outlives a killed job; then nothing listens at its address. Any thread; tools too.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.h"

namespace cropdl::coord {

struct JobFile {
  std::string address;  // of rank 0's hub (coord/transport.h)
  std::string token;    // a process that can read it may join
  std::string run_id;   // of this launch
  int pid = 0;          // of rank 0
  std::string host;     // of rank 0
  uint32_t ranks = 0;
  std::string started;  // ISO 8601, UTC
  static constexpr const char* kMembers[] = {"address", "token", "run_id", "pid",
                                             "host",    "ranks", "started"};  // base/json.h
};

Status write_job_file(const std::string& directory, const JobFile& job);
// `*missing`: no file; no job has run here. `owner`: receives the file's.
Result<JobFile> read_job_file(const std::string& directory, bool* missing, uid_t* owner = nullptr);
void remove_job_file(const std::string& directory);

// A rank on another node than rank 0 cannot join; it leaves its host's name for a refused checkpoint's line.
void leave_remote_rank(const std::string& directory, const std::string& run_id, uint32_t rank,
                       const std::string& host);
// "": the rank is not on another node.
std::string remote_rank_host(const std::string& directory, const std::string& run_id, uint32_t rank);
void remove_remote_rank(const std::string& directory, uint32_t rank);

// The first rank that notices that it outlives rank 0 records itself here until it ends: no more checkpoints.
bool begin_to_outlive(const std::string& directory, uint32_t rank, const std::string& host);
void end_to_outlive(const std::string& directory);  // also removes a killed rank's record
// "rank R (pid N) goes on without it", or "": no such rank is known to be alive on this host.
std::string outlives(const std::string& directory, const std::string& host);

}  // namespace cropdl::coord
