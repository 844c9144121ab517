// An agent's configuration: its rank and its job; and the phase that it shows for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/file.h"
#include "coord/cut.h"
#include "coord/interval_policy.h"
#include "coord/schedule.h"

namespace cropdl::coord {

struct AgentConfig {
  std::string directory;  // of the store; the same for all ranks
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::string run_id;  // the launcher's job id: equal on all ranks of one launch, different between launches
  std::string host;    // if empty, gethostname(2)
  Schedule schedule;   // only rank 0's value is used
  double shortest_interval = kShortestInterval;  // seconds; for an automatic schedule
  // Seconds. The store's disk is measured if that may bring the first version forward by more.
  double worth_measuring = 600;
  double former_cost = 0;     // seconds that a version took before the restart; 0: unknown
  double plausible_cost = 0;  // former_cost, limited to what a slow disk explains
  double fastest = 0;         // bytes/s at which all ranks write at most; 0: unknown
  // Seconds from now until the job's time limit; 0: unknown. Only rank 0's value is used.
  double time_limit = 0;
  // Rank 0 draws a progress line on its standard error if that is a terminal (progress.h).
  bool progress = false;
  bool quiet = false;   // suppress lines about decisions; faults are still reported
  std::string metrics;  // file for rank 0's metrics (metrics.h), "": none; `job` is a label in it
  std::string job;
  // True: a rank that has lost rank 0 looks for no later program of the job (docs/cut.md, "Scripts").
  bool restart = false;
  // How long a rank searches for rank 0, and how long an exchange waits for ranks to join.
  double rendezvous_seconds = 60;
  double outlives_seconds = 10;  // a rank that still runs this long after rank 0 ended reports it
  double say_seconds = 60;       // an exchange reports at this interval whom it waits for
  CutLimits limits;
  // The agent's thread unshares its descriptor table; allows one agent per process only.
  bool own_descriptors = false;
  bool trace_phase = false;                        // maintain DIR/phase, for tests that wait for a phase
  std::function<void(const std::string&)> report;  // prints a line for people; agent's thread; empty: stderr
};

// DIR/phase, with trace_phase: what rank 0 is doing, for tests and people. Written by the agent's thread at
// each phase of a checkpoint, and by the main thread during a restart (Agent::note_phase), before the program
// runs: until then checkpoints are refused, so only one of the two has a phase to tell.
inline Status write_phase(const AgentConfig& config, const std::string& phase) {
  if (config.rank != 0 || !config.trace_phase) return {};
  return replace_file(config.directory + "/phase", phase + "\n");
}

}  // namespace cropdl::coord
