// A job's metrics in Prometheus' text format (cropdl-run --metrics), for node_exporter's textfile collector,
// which reads *.prom files in a folder. docs/cli.md lists them. metrics_text() is pure; rank 0's agent thread
// (LH FS base) writes the file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace cropdl::coord {

struct Metrics {
  bool up = true;
  std::string job, store;  // labels of all metrics: the job's id, the store's path
  uint32_t ranks = 0, joined = 0;
  double run_seconds = 0;              // since the start or restart
  uint64_t versions = 0;               // published by this run
  uint64_t failures = 0;               // requests that ended without a version
  uint64_t last_version = 0;           // 0: none by this run; then the fields on it are left out
  int64_t last_version_time = 0;       // seconds since 1970
  uint64_t last_version_bytes = 0;     // size of its images
  uint64_t last_version_memory = 0;    // memory saved in them
  double last_version_stall = 0;       // seconds
  double held_seconds = 0;             // time that all versions and attempts held the program
  double beside_seconds = 0;           // Hub::beside_seconds()
  std::optional<double> next_version;  // seconds until due; empty: left out
  uint64_t iteration = 0;              // completed iterations; 0: unknown, left out
  double iteration_seconds = 0;        // 0: unknown, left out
};

// What CropDL costs, as a fraction of the time since the start or restart.
double overhead(const Metrics& metrics);

// Returns the Prometheus text format, version 0.0.4: each metric with its HELP and TYPE.
std::string metrics_text(const Metrics& metrics);

class MetricsFile {
 public:
  // `report` gets one line when the file cannot be written, and again only after a write has succeeded.
  MetricsFile(std::string path, std::function<void(const std::string&)> report)
      : path_(std::move(path)), report_(std::move(report)) {}

  // Writes a temporary file beside it and renames it: readers see a complete file. World-readable.
  void write(const Metrics& metrics);

 private:
  std::string path_;
  std::function<void(const std::string&)> report_;
  bool failed_ = false;
};

}  // namespace cropdl::coord
