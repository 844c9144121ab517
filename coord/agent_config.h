// What an agent has to know about its rank and its job.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "coord/cut.h"

namespace cropdl::coord {

struct AgentConfig {
  std::string directory;  // the store's; the same for all ranks
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::string run_id;           // equal on all ranks of one launch, and on no others: the launcher's job id
  std::string host;             // empty: gethostname(2)
  double interval_seconds = 0;  // 0: checkpoints only when asked for
  double rendezvous_seconds =
      60;                   // how long a rank looks for rank 0, and an exchange waits for ranks to join
  double say_seconds = 60;  // an exchange that takes longer says whom it waits for, again and again
  CutLimits limits;
  bool own_descriptors =
      false;                 // the thread works on a descriptor table of its own: one agent per process then
  bool trace_phase = false;  // keep DIR/phase, for tests that aim at a phase
  std::function<void(const std::string&)> report;  // lines for people, by the agent's thread; empty: stderr
};

}  // namespace cropdl::coord
