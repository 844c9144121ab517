// The store as rank 0's coordinator uses it. The agent's thread calls it, except publish(), discard(), tidy()
// and measure_disk(), which run on threads of their own: a slow disk must not keep the agent from answering.
// One call at a time, except the last two.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "coord/local_rank.h"

namespace cropdl::coord {

class VersionSink {
 public:
  virtual ~VersionSink() = default;
  // Creates a directory for all ranks' images, not yet visible as a version.
  virtual Result<std::string> begin() = 0;
  // Makes the version visible, durably. Returns its number. After an error the caller calls discard().
  virtual Result<uint64_t> publish(const NewVersion& version) = 0;
  virtual void discard() = 0;  // removes the version that was begun; the ranks run meanwhile
  // Removes obsolete versions while the ranks run: freeing gigabytes takes time. In its own thread,
  // concurrently with the functions above. An error says what is left.
  virtual Status tidy() { return {}; }
  // How fast one rank's image may be written: bytes/s. Ends early on `stop`. As tidy(), not at the same time.
  virtual Result<double> measure_disk(const std::stop_token& stop) = 0;
  // Only renames obsolete versions, quickly; the next run removes them. May run concurrently with tidy().
  virtual Status set_aside() { return {}; }
};

}  // namespace cropdl::coord
