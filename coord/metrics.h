// What a job is at, in Prometheus' text format (cropdl-run --metrics): for the textfile collector of
// node_exporter, which reads files named *.prom in a folder. docs/cli.md lists the metrics. metrics_text() is
// pure; the file is rank 0's agent thread's (LH FS base).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace cropdl::coord {

struct Metrics {
  bool up = true;
  std::string job, store;  // labels of all: the job's id, and the path
  uint32_t ranks = 0, joined = 0;
  double run_seconds = 0;              // since the start or restart
  uint64_t versions = 0;               // published by this run
  uint64_t failures = 0;               // requests that ended without one
  uint64_t last_version = 0;           // its number; 0: none by this run, and what is known of it is left out
  int64_t last_version_time = 0;       // seconds since 1970
  uint64_t last_version_bytes = 0;     // of its images,
  uint64_t last_version_memory = 0;    // and of the memory that they hold
  double last_version_stall = 0;       // seconds
  double held_seconds = 0;             // that the program could not go on, for all of them
  std::optional<double> next_version;  // seconds until it is due; left out if none is
  uint64_t iteration = 0;              // complete ones; 0: none are known, and it is left out
  double iteration_seconds = 0;        // likewise
};

// The Prometheus text format, version 0.0.4: each metric with its HELP and TYPE.
std::string metrics_text(const Metrics& metrics);

class MetricsFile {
 public:
  // `report` gets one line for people when the file cannot be written; again only after it could.
  MetricsFile(std::string path, std::function<void(const std::string&)> report)
      : path_(std::move(path)), report_(std::move(report)) {}

  // Under a temporary name beside it, then renamed: who reads it finds a whole one. Anybody may read it.
  void write(const Metrics& metrics);

 private:
  std::string path_;
  std::function<void(const std::string&)> report_;
  bool failed_ = false;
};

}  // namespace cropdl::coord
