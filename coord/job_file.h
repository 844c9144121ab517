// DIR/job: how ranks and the cropdl command find the job that is running on a directory. JSON, mode 0600,
// appears by rename. It outlives a killed job: whoever reads it must then find nobody at its address. Any
// thread; tools too.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace cropdl::coord {

struct JobFile {
  std::string address;  // of rank 0's hub (coord/transport.h)
  std::string token;    // whoever can read this file may take part
  std::string run_id;   // of this launch
  int pid = 0;          // of rank 0
  std::string host;     // of rank 0
  uint32_t ranks = 0;
  std::string started;  // ISO 8601, UTC
};

Status write_job_file(const std::string& directory, const JobFile& job);
// `*missing`: there is none, nobody has run here.
Result<JobFile> read_job_file(const std::string& directory, bool* missing);
void remove_job_file(const std::string& directory);

// Writes a file that appears complete or not at all (no fsync: it describes a running job only), mode 0600.
Status replace_file(const std::string& path, const std::string& content);

// A rank that runs on another node than rank 0 cannot join; it leaves its host's name here so that a refused
// checkpoint can name it.
Status leave_remote_rank(const std::string& directory, const std::string& run_id, uint32_t rank,
                         const std::string& host);
std::string remote_rank_host(const std::string& directory, const std::string& run_id,
                             uint32_t rank);  // "": not apart
void remove_remote_rank(const std::string& directory, uint32_t rank);

// A rank that goes on when rank 0 has ended its program: nobody is left who could take a checkpoint. The
// first one that notices says so here, until it ends.
bool begin_to_outlive(const std::string& directory, uint32_t rank,
                      const std::string& host);     // it is that one
void end_to_outlive(const std::string& directory);  // also what a killed one left
// "rank R (pid N) goes on without it", or "": none is known, and alive on this host.
std::string outlives(const std::string& directory, const std::string& host);

}  // namespace cropdl::coord
