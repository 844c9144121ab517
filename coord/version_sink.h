// Where the versions of a job go: the store, seen from the coordinator on rank 0. Called by the agent's
// thread and, for publish() and discard(), by a thread of its own (a slow disk must not keep the agent from
// answering); never two at a time, but for tidy().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "coord/local_rank.h"

namespace cropdl::coord {

class VersionSink {
 public:
  virtual ~VersionSink() = default;
  // A fresh directory that every rank writes its image into; not yet visible as a version.
  virtual Result<std::string> begin() = 0;
  // Makes it visible, durably. `images` by rank. Returns the version's number. After an error discard()
  // follows.
  virtual Result<uint64_t> publish(const std::vector<ImageSummary>& images, double stall_seconds) = 0;
  // Removes what was begun. The ranks go on meanwhile.
  virtual void discard() = 0;
  // Removes the versions that nobody wants any more, once the ranks go on: freeing gigabytes takes time. By a
  // thread of its own; the functions above may be called meanwhile. An error says what stays.
  virtual Status tidy() { return {}; }
  // Takes their names only, at once: the next run removes them. Also while tidy() runs.
  virtual Status set_aside() { return {}; }
};

}  // namespace cropdl::coord
