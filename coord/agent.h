// The control plane's thread in each rank's process. Sleeps in poll(); makes no MPI call and takes no lock on
// the program's path. Rank 0's also serves the hub and starts the publisher's threads. LH FS base.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coord/agent_config.h"
#include "coord/local_rank.h"
#include "coord/version_sink.h"

namespace cropdl::coord {

class Agent {
 public:
  // Starts the thread, all signals blocked. `rank` and `sink` must outlive the agent; `sink` is rank 0's only
  // (else nullptr). Rank 0's directory must exist and be locked by this job. On an error checkpoints are not
  // possible, and nothing is left behind. Other ranks search for rank 0 in the background. `rank` may be
  // called from now on; until it can be checkpointed, its status has a refusal.
  static Result<std::unique_ptr<Agent>> start(AgentConfig config, LocalRank& rank, VersionSink* sink);
  virtual ~Agent() = default;

  // An eventfd; a write, as by a signal handler that must not call libc, requests a checkpoint. No effect
  // while a request is being served. -1 on ranks other than 0: launchers forward a signal to all ranks and
  // mean one request. Valid until stop().
  virtual int request_descriptor() const noexcept = 0;

  // An eventfd on every rank; a write reports that the program got SIGTERM, with no other effect so far. The
  // agent requests a last version; the process ends after it, or dies of the signal. Half a second later the
  // agent's thread unblocks SIGTERM, because the program may be stopped. Valid until stop().
  virtual int terminated_descriptor() const noexcept = 0;

  // An eventfd; after a write, any thread's, the agent looks at its rank at once and for some time more
  // often, if an attempt is under way. Valid until stop().
  virtual int wake_descriptor() const noexcept = 0;

  // All-gathers small strings, indexed by rank; before and without MPI. Called equally often on every rank,
  // one thread at a time, not the agent's. Blocks while all ranks live. Fails if a rank dies or has not
  // joined within AgentConfig::rendezvous_seconds, or for texts beyond kLongestExchange (wire.h), with the
  // same error on all ranks, or one that begins with the caller's rank.
  virtual Result<std::vector<std::string>> exchange(const std::string& mine) = 0;

  // Writes DIR/phase (rank 0, with trace_phase): phases outside the agreement ("restarting"). Any thread.
  virtual void note_phase(const std::string& phase) = 0;

  // Call at the program's end. Leaves an attempt in progress, says Bye, joins the thread. Completes a version
  // that is being published. Idempotent; also called by the destructor.
  virtual void stop() = 0;
};

}  // namespace cropdl::coord
