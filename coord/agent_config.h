// What an agent has to know about its rank and its job.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "coord/cut.h"
#include "coord/interval_policy.h"
#include "coord/schedule.h"

namespace cropdl::coord {

struct AgentConfig {
  std::string directory;  // the store's; the same for all ranks
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::string run_id;  // equal on all ranks of one launch, and on no others: the launcher's job id
  std::string host;    // empty: gethostname(2)
  Schedule schedule;   // rank 0's counts
  double shortest_interval = kShortestInterval;  // seconds; of an automatic schedule
  double former_cost = 0;  // seconds that the version which is restarted from took; 0: unknown
  // Seconds from now until others end the job; 0: not known. Rank 0's counts.
  double time_limit = 0;
  bool progress = false;  // rank 0 keeps a line on its standard error, if that is a terminal (progress.h)
  bool quiet = false;     // what is decided, and no fault, is not told
  std::string metrics;    // file that rank 0 writes metrics to (metrics.h), "": none; `job` is a label there
  std::string job;
  double rendezvous_seconds =
      60;                        // how long a rank looks for rank 0, and an exchange waits for ranks to join
  double outlives_seconds = 10;  // a rank that goes on for so long behind rank 0 says so
  double say_seconds = 60;       // an exchange that takes longer says whom it waits for, again and again
  CutLimits limits;
  bool own_descriptors =
      false;                 // the thread works on a descriptor table of its own: one agent per process then
  bool trace_phase = false;  // keep DIR/phase, for tests that aim at a phase
  std::function<void(const std::string&)> report;  // lines for people, by the agent's thread; empty: stderr
};

}  // namespace cropdl::coord
