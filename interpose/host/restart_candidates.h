// The versions of a store that a restart may take, and their trial: an image is loaded into the program's
// addresses, and unloaded again if it turns out to be damaged. LH, MAIN, START of a restart.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "interpose/host/process.h"
#include "restart/files/reopen_files.h"
#include "restart/image.h"
#include "restart/memory/mapped_files.h"
#include "restart/session/metadata.h"

namespace cropdl::host {

// A version, and what this rank's image of it says.
struct Candidate {
  restart::Version version;
  session::Metadata metadata;
  std::string damage;  // or why there is no metadata
};

// In the order of `versions`; only the one that the user asked for, if any. Reads each image's metadata and
// closes the image again: the descriptors' numbers are still to be arranged.
std::vector<Candidate> read_candidates(const Process& p, std::vector<restart::Version> versions);

// Checks that this process can continue the candidate, and loads its memory. `put_back`: by any rank.
// Returns a verdict (restart_ranks.h). `loaded` is the open image afterwards, if its memory was loaded.
std::string load_candidate(Process& p, const Candidate& candidate, files::FilesPolicy policy,
                           const files::FilesPutBack& put_back, host_memory::ReservedAddresses& reserved,
                           std::unique_ptr<restart::ImageReader>* loaded);

}  // namespace cropdl::host
