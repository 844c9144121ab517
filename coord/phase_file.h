// DIR/phase, with AgentConfig::trace_phase: what rank 0 is doing, for tests and people. Written by the
// agent's thread at each phase of a checkpoint, and by the main thread during a restart (Agent::note_phase),
// before the program runs: until then checkpoints are refused, so only one of the two has a phase to tell.
#pragma once

#include <string>

#include "base/file.h"
#include "coord/agent_config.h"

namespace cropdl::coord {

inline Status write_phase(const AgentConfig& config, const std::string& phase) {
  if (config.rank != 0 || !config.trace_phase) return {};
  return replace_file(config.directory + "/phase", phase + "\n");
}

}  // namespace cropdl::coord
