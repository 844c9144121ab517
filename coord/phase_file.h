// DIR/phase, with AgentConfig::trace_phase: what rank 0 is doing, for tests and people. Written by the
// agent's thread at each phase of a checkpoint, and by the main thread during a restart (Agent::note_phase),
// before the program runs: until then checkpoints are refused, so only one of the two has a phase to tell.
#pragma once

#include <string>

#include "base/file.h"
#include "base/format.h"
#include "coord/agent_config.h"

namespace cropdl::coord {

inline Status write_phase(const AgentConfig& config, const std::string& phase) {
  if (config.rank != 0 || !config.trace_phase) return {};
  const std::string path = config.directory + "/phase";
  const int failure = replace_file(path, phase + "\n");
  return failure == 0 ? Status() : Error{formatted("{}: cannot be written: {}", path, errno_text(failure))};
}

}  // namespace cropdl::coord
