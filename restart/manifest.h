// A version's manifest, manifest.json in its directory: what was saved, of which job, in what environment,
// and its images (fields: docs/image-format.md). LH (LH FS base) and tools; any thread. Nothing here throws.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::restart {

inline constexpr uint32_t kManifestFormat = 1;

std::string image_name(uint32_t rank);  // "rank-3.img"

struct ManifestImage {
  std::string file;            // image_name() of the rank, in the version's directory
  uint64_t bytes = 0;          // size of the file
  uint64_t memory = 0;         // bytes of memory in the file
  uint64_t checksum = 0;       // ImageTotals::checksum
  std::string host;            // the rank's host
  uint64_t device_memory = 0;  // part of `memory` on devices, bytes
  std::string devices = {};    // names of those devices, for people; "": none
  uint64_t iteration = 0;      // completed iterations of the main loop; 0: unknown
  bool operator==(const ManifestImage&) const = default;
};

struct Manifest {
  uint32_t format = kManifestFormat;
  uint32_t seam = 0;
  uint64_t version = 0;    // set by Store::publish
  uint64_t parent = 0;     // version before this one or restarted from; 0: none
  bool restarted = false;  // first version of a run restarted from `parent`
  std::string created;     // utc_now()
  std::string job;         // random id of the job's first start, kept over restarts
  uint32_t ranks = 0;
  std::string program;            // absolute path
  std::vector<std::string> args;  // arguments without the program's name
  std::string cwd;
  std::string mpi_name, mpi_version;  // "openmpi", "mpich", "none"; the library's version line
  std::string launcher;               // path, "": no launcher
  std::vector<std::string> launcher_options;
  std::string glibc, kernel;              // of the host; for people, never a reason to refuse
  std::vector<std::string> cpu_features;  // features that a restart needs
  double stall_seconds = 0;
  // Parts of the stall: until all ranks had stopped; until all messages had arrived; and of the rest,
  // writing, the longest of all ranks' final syncs. 0 also in versions that do not say.
  struct Stages {
    double stopping = 0, draining = 0, syncing = 0;
    bool operator==(const Stages&) const = default;
  } stages;
  double wait_seconds = 0;            // before the stall; 0 also in versions that do not say
  std::vector<ManifestImage> images;  // indexed by rank
  bool operator==(const Manifest&) const = default;

  uint64_t sum_of(uint64_t ManifestImage::*part) const;  // of all images
  uint64_t bytes() const { return sum_of(&ManifestImage::bytes); }
  uint64_t memory() const { return sum_of(&ManifestImage::memory); }
  uint64_t device_memory() const { return sum_of(&ManifestImage::device_memory); }
  uint64_t iteration() const;   // of rank 0
  std::string devices() const;  // of all images, without repeats; "": none
};

std::string manifest_text(const Manifest& manifest);

// The error names `where`. Refuses newer formats, damage (own checksum), and missing or impossible fields.
Result<Manifest> parse_manifest(const std::string& text, const std::string& where);

}  // namespace cropdl::restart
