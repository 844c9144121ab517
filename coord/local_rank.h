// What the control plane's agent asks of the rank it lives in. Implemented by the lower half (and by a model
// in the tests). All functions are called by the agent's thread of the same process (LH FS base); none blocks
// for longer than a few hundred microseconds except where it says so. None makes an MPI call: what must be
// done by the main thread is posted to it and polled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::coord {

// In the identity of a call among processes of which no communicator tells.
inline constexpr uint64_t kSubgroupCall = uint64_t{1} << 63;

// A count of who has ended the communicator without the others: more than anybody begins. No cut is made
// before they have, too.
inline constexpr uint64_t kAborted = uint64_t{1} << 62;

// Collectives begun by this rank on one communicator since the communicator exists. `comm` is the
// communicator's identity, equal on all its members and over restarts, or a meeting's. Nobody counts those:
// one is listed while a thread is inside or held there, short of its target while a thread that was held when
// the target rose has not begun yet, else at it (at 0 while it has none).
struct CollectiveCount {
  uint64_t comm;
  uint64_t begun;
  bool operator==(const CollectiveCount&) const = default;
};

// Where the program's iterations end, as far as its rank can tell (docs/boundaries.md).
struct BoundaryCount {
  uint64_t comm;   // as in CollectiveCount
  uint64_t begun;  // when the next iteration has ended,
  uint64_t every;  // and how many are begun in each
  bool operator==(const BoundaryCount&) const = default;
};
struct Iterations {
  uint64_t complete = 0;  // 0: none are known
  uint64_t us = 0;        // that one takes, 0: not known
};
struct NextBoundary {
  uint64_t iteration = 0;     // that number will be complete; 0: no iterations are known
  uint64_t iteration_us = 0;  // that one takes, 0: not known
  std::vector<BoundaryCount> counts;
  bool operator==(const NextBoundary&) const = default;
};

// Where the rank's threads are with regard to collectives. One consistent look: after hold() a rank that is
// at its targets, and no thread of which is inside, stays so. A new communicator is listed (with 0) before
// the collective that makes it ends.
struct RankStatus {
  std::vector<CollectiveCount> counts;  // every communicator the rank is, or lately was, a member of
  std::vector<uint64_t> inside;         // communicators of the collectives that its threads are inside of
  std::vector<uint64_t> held;           // ... and of those that they wait to begin
  uint64_t progress = 0;  // messages sent and received; collectives show in `counts` and `inside`
  std::string refusal;    // why no checkpoint can be taken now (one line, names call or state), or ""
  bool starting = false;  // the program does not run yet: `refusal` will pass by itself
  NextBoundary boundary;  // of the main loop
  bool operator==(const RankStatus&) const = default;
};

struct PeerCount {
  uint32_t world_rank;
  uint64_t messages;
  bool operator==(const PeerCount&) const = default;
};

struct ImageSummary {
  std::string file;            // name within the version's directory
  uint64_t bytes = 0;          // size of the image file
  uint64_t memory = 0;         // bytes of memory it holds
  uint64_t checksum = 0;       // of the image's index, as recorded in the manifest
  uint64_t device_memory = 0;  // bytes of `memory` that are devices'
  std::string devices = {};    // that it was made on, for people; "": none
  uint64_t iteration = 0;      // the program had completed so many; 0: none are known
};

class LocalRank {
 public:
  virtual ~LocalRank() = default;

  // --- At any time. Looks after what the program does; returns when it wants to be called again (`now`:
  // CLOCK_MONOTONIC, us). INT64_MAX: never.
  virtual int64_t observe(int64_t /*now*/) { return INT64_MAX; }
  virtual Iterations iterations() { return {}; }  // as of then

  // --- Agreement. From hold() on, each thread stops before it begins a collective beyond the targets
  // (no target known for a communicator: before any collective on it).
  virtual void hold() = 0;
  virtual void set_targets(const std::vector<CollectiveCount>& targets) = 0;
  virtual RankStatus status() = 0;

  // --- Stop. Called again and again (every 100 us or so) until true: every thread of the program is
  // outside the LH, its context complete; what refuses a checkpoint has been looked for, and the main thread
  // now serves the functions below. A failure: it cannot come to that; the request ends with it.
  virtual bool try_stop(Status* failure) = 0;

  // --- Only while stopped.
  virtual std::string refusal_when_stopped() = 0;  // "" or why the state cannot be saved
  virtual std::vector<PeerCount> sent() = 0;       // point-to-point messages ever sent, per world rank;
                                                   // also while try_stop() is false (each is counted
                                                   // before its send begins)
  virtual void begin_drain(
      const std::vector<PeerCount>& expected) = 0;  // messages sent to this rank, per sender;
                                                    // again with larger numbers while senders still run
  virtual bool drained(Status* failure) = 0;        // all expected messages are here, all sends are done
  virtual void begin_write(const std::string& directory) = 0;
  virtual bool written(Status* failure, ImageSummary* summary) = 0;  // the image is complete and synced

  // --- At any time: about how much memory an image of it would hold now, in bytes.
  virtual uint64_t memory_bytes() = 0;

  // --- At any time: takes a SIGTERM that no thread of the program can take, since all are stopped, and of
  // which a last version is to come. False: there is none.
  virtual bool take_sigterm() { return false; }
  // --- From now on SIGTERM kills the process, unless the program has a handler of its own for it by now.
  virtual void let_sigterm_kill() {}

  // --- Ends a hold, a stop or an attempt at any point. Idempotent.
  virtual void resume() = 0;

  // --- The last thing that the agent does: the process ends with this exit status at once. The program is
  // stopped, and stays as its image has it: nothing that it has not written yet may leave its buffers.
  virtual void leave(int status) = 0;
  // --- Likewise: the process dies by this signal at once, whatever handles it. The program may run.
  virtual void die(int signal) = 0;
};

}  // namespace cropdl::coord
