// The drain: receives messages under way into the persistent heap, from which they are delivered later as if
// they had just arrived (drained_messages.cpp). LH, LH FS base; the parked main thread, unless stated
// otherwise.
//
// It takes only messages that no posted receive has matched (MPI_Improbe sees no others), in matching order.
// A receive keeps that order by looking among the drained messages first and in the network second.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {

extern const char* const kNoMemoryToDrain;
extern const char* const kFailedToDrain;

class MessageDrain {
 public:
  // `expected_by_rank`: messages sent to this rank, per world rank.
  void begin(std::span<const uint64_t> expected_by_rank);
  // Never blocks. True: no operation is in progress, and all expected messages are here.
  bool step();
  // Only receive arrived messages, while threads of the program are in blocking sends (early_drain.cpp).
  void begin_early();
  void step_early();

  const char* trouble() const { return trouble_; }       // why it cannot succeed; nullptr: none. Any thread.
  void set_trouble(const char* why) { trouble_ = why; }  // `why` stays

  // Until the message is complete: after an abandoned checkpoint, a receive of the program may match one that
  // the drain is still receiving. A thread of the program.
  void wait_for(DrainedMessage* m);

 private:
  struct InFlight {
    MPI_Request request;
    DrainedMessage* message;
    CommRecord* comm;
  };
  static void complete(const InFlight& f);
  DrainedMessage* place_for(Vid comm, const seam::Status& status);
  bool start_taking(MPI_Message* real, DrainedMessage* m, CommRecord* comm);
  void take_matched();
  bool take_arrived(Vid comm);

  handles::SpinLock lock_;           // of in_flight_, among threads in wait_for()
  std::vector<InFlight> in_flight_;  // empty when a cut is complete
  std::vector<uint64_t> expected_;   // messages sent to this rank, per world rank
  std::vector<Vid> probed_;          // communicators whose messages are counted
  std::atomic<const char*> trouble_{nullptr};
};

}  // namespace cropdl::mpi
