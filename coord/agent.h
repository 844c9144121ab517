// The control plane's thread in each rank's process. It sleeps in poll() until there is something to do,
// makes no MPI call and takes no lock on the program's path. Rank 0's also serves the hub, and starts threads
// that publish versions and remove others (publisher.h). Lower half, LH FS base.
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
  // Starts the thread, with all signals blocked in it. `rank` and `sink` must outlive it; `sink` on rank 0
  // only (else nullptr). On rank 0 the directory must exist and be locked by this job; an error means that
  // checkpoints are not possible, and leaves nothing behind. Other ranks find rank 0 in the background;
  // `rank` must be ready to answer from now on (with a refusal in its status, if it is not ready to be
  // checkpointed).
  static Result<std::unique_ptr<Agent>> start(AgentConfig config, LocalRank& rank, VersionSink* sink);
  ~Agent();

  // Asks for a checkpoint. Async-signal-safe. On ranks other than 0 it does nothing: launchers forward a
  // signal to all ranks, and one request is meant. While one is being served it does nothing either.
  void request() noexcept;

  // An eventfd whose write is the same as request(): for a signal handler that must not call into libc. -1 on
  // ranks other than 0. Valid until stop().
  int request_descriptor() const noexcept;

  // An eventfd on every rank, whose write says that the program got SIGTERM and that nothing else comes of
  // it: the agent asks for a last version and ends the process behind it, or by the signal. Half a second
  // later the agent's thread takes SIGTERM, since the program's may be stopped. Valid until stop().
  int terminated_descriptor() const noexcept;

  // All-gather of small strings over all ranks, indexed by rank; before and without MPI. Called the same
  // number of times on every rank, by one thread at a time, not by the agent's. Blocks for as long as all
  // ranks live; one that has not joined within AgentConfig::rendezvous_seconds, or dies, ends it. Its error
  // is the same on all ranks, or begins with the number of the one that it is told to.
  Result<std::vector<std::string>> exchange(const std::string& mine);

  // Writes DIR/phase (rank 0 with trace_phase; else does nothing): for phases that the agreement does not
  // know, such as "restarting". Any thread.
  void note_phase(const std::string& phase);

  // The program ends: leaves an attempt under way, says good-bye, ends the thread. A version that is just
  // being published is completed. Idempotent; also done by the destructor.
  void stop();

 private:
  class Loop;
  explicit Agent(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace cropdl::coord
