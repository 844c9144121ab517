// The manifest of a version: what was saved, of which job, under what, and the images that belong together.
// JSON, in the version's directory as manifest.json; docs/image-format.md lists its fields. Lower half (LH FS
// base) and tools; any thread. Nothing here throws.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::restart {

inline constexpr uint32_t kManifestFormat = 1;

std::string image_name(uint32_t rank);  // "rank-3.img"

struct ManifestImage {
  std::string file;            // image_name() of its rank, within the version's directory
  uint64_t bytes = 0;          // size of the file
  uint64_t memory = 0;         // bytes of memory in it
  uint64_t checksum = 0;       // ImageTotals::checksum
  std::string host;            // where the rank ran
  uint64_t device_memory = 0;  // bytes of `memory` that are devices'
  std::string devices = {};    // that they were on, for people; "": none
  uint64_t iteration = 0;      // of its program's main loop, that many were complete; 0: none are known
  bool operator==(const ManifestImage&) const = default;
};

struct Manifest {
  uint32_t format = kManifestFormat;
  uint32_t seam = 0;
  uint64_t version = 0;           // set by Store::publish
  uint64_t parent = 0;            // version this one follows, or was restarted from; 0: none
  bool restarted = false;         // the first version of a run that was restarted from `parent`
  std::string created;            // utc_now()
  std::string job;                // id drawn when the job was first started, kept over restarts
  uint32_t ranks = 0;             //
  std::string program;            // absolute path
  std::vector<std::string> args;  // without the program's name
  std::string cwd;
  std::string mpi_name, mpi_version;  // "openmpi", "mpich", "none"; its library's version line
  std::string launcher;               // path, "" when there was none
  std::vector<std::string> launcher_options;
  std::string glibc, kernel;              // of the host; for people, never a reason to refuse
  std::vector<std::string> cpu_features;  // those a restart needs
  double stall_seconds = 0;
  std::vector<ManifestImage> images;  // image of rank i at i
  bool operator==(const Manifest&) const = default;

  uint64_t bytes() const;  // of all images
  uint64_t memory() const;
  uint64_t device_memory() const;
  uint64_t iteration() const;   // of rank 0
  std::string devices() const;  // of all images, each text once; "": none
};

std::string manifest_text(const Manifest& manifest);

// `where` is named in the error. Refuses newer formats, damage (own checksum), missing or impossible fields.
Result<Manifest> parse_manifest(const std::string& text, const std::string& where);

}  // namespace cropdl::restart
