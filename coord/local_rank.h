// The agent's interface to its own rank, implemented by the lower half and by a model in the tests. Called by
// the agent's thread of the same process (LH FS base). No function blocks for more than a few hundred
// microseconds unless documented. None makes an MPI call: work for the main thread is posted and polled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::coord {

// Bit set in the identity of a subgroup call: a call among processes that no communicator identifies.
inline constexpr uint64_t kSubgroupCall = uint64_t{1} << 63;

// The count of a rank that has aborted the communicator, larger than any. No cut before all have aborted it.
inline constexpr uint64_t kAborted = uint64_t{1} << 62;

// Collectives that this rank has begun on a communicator. `comm`: the communicator's identity, equal on all
// members and over restarts, or a subgroup call's. Subgroup calls are not counted and are listed only while a
// thread is inside or held there. Its `begun` is less than the target while a thread that was held before
// the target rose has not begun the call; otherwise it is the target, or 0 without one.
struct CollectiveCount {
  uint64_t comm;
  uint64_t begun;
  bool operator==(const CollectiveCount&) const = default;
};

// A member of a communicator that its library makes again from all members together. A rank may have several.
struct Membership {
  uint64_t comm;   // as in CollectiveCount
  uint32_t ranks;  // number of members
  bool operator==(const Membership&) const = default;
};

// Collectives on one communicator that a thread waits to begin. A group of calls, which begin together or not
// at all, has one entry for each of its communicators.
struct HeldCalls {
  uint64_t comm;    // as in CollectiveCount
  uint64_t wanted;  // the smallest target that admits them: the count once they have begun
  bool operator==(const HeldCalls&) const = default;
};

// The end of the current iteration, as far as this rank can tell (docs/boundaries.md).
struct BoundaryCount {
  uint64_t comm;   // as in CollectiveCount
  uint64_t begun;  // count at the end of the next iteration
  uint64_t every;  // collectives per iteration
  bool operator==(const BoundaryCount&) const = default;
};
struct Iterations {
  uint64_t complete = 0;  // completed iterations; 0: unknown
  uint64_t us = 0;        // length of an iteration, 0: unknown
};
struct NextBoundary {
  uint64_t iteration = 0;     // completed iterations by then; 0: no iterations are known
  uint64_t iteration_us = 0;  // length of an iteration, 0: unknown
  std::vector<BoundaryCount> counts;
  bool operator==(const NextBoundary&) const = default;
};

// Where the rank's threads are with regard to collectives; one consistent snapshot. After hold(), a rank that
// is at its targets with no thread inside stays so. A new communicator is listed (with 0) before the
// collective that creates it ends.
struct RankStatus {
  std::vector<CollectiveCount> counts;  // of all current and recent communicators of the rank
  std::vector<uint64_t> inside;         // communicators of collectives with a thread inside
  std::vector<HeldCalls> held;          // those that threads wait to begin; one entry for a communicator
  std::vector<Membership> members;      // of communicators that exist and can be used
  uint64_t progress = 0;                // messages sent and received, without collectives
  std::string refusal;    // one line that names the call or state that refuses a checkpoint now, or ""
  bool starting = false;  // the program has not started; `refusal` will pass
  NextBoundary boundary;  // of the main loop
  bool operator==(const RankStatus&) const = default;
};

// The count of a communicator; 0 if the rank does not list it.
inline uint64_t begun_on(const RankStatus& s, uint64_t comm) {
  for (const CollectiveCount& c : s.counts)
    if (c.comm == comm) return c.begun;
  return 0;
}

struct PeerCount {
  uint32_t world_rank;
  uint64_t messages;
  bool operator==(const PeerCount&) const = default;
};

struct ImageSummary {
  std::string file;            // name in the version's directory
  uint64_t bytes = 0;          // size of the image file
  uint64_t memory = 0;         // bytes of memory it holds
  uint64_t checksum = 0;       // of the image's trailer, as in the manifest
  uint64_t device_memory = 0;  // part of `memory` on devices, bytes
  std::string devices = {};    // devices it was made on, for people; "": none
  uint64_t iteration = 0;      // completed iterations; 0: unknown
  double sync_seconds = 0;     // the last part of writing: until the file was on disk
};

// A version whose images are complete.
struct NewVersion {
  std::vector<ImageSummary> images;  // by rank
  double stall_seconds = 0;          // from Stop on
  double stopping_seconds = 0;       // its first part: until all ranks had stopped
  double draining_seconds = 0;       // its second part: until they were told to write
  double wait_seconds = 0;           // the longest that a rank was held before a collective, until it stopped
};

class LocalRank {
 public:
  virtual ~LocalRank() = default;

  // --- At any time. Observes the program. Returns when to call again (`now`: CLOCK_MONOTONIC, us);
  // INT64_MAX: never.
  virtual int64_t observe(int64_t /*now*/) { return INT64_MAX; }
  virtual Iterations iterations() { return {}; }  // as of the last observe()

  // --- Agreement. After hold(), each thread stops before a collective beyond the targets (before any, on a
  // communicator without a target).
  virtual void hold() = 0;
  virtual void set_targets(const std::vector<CollectiveCount>& targets) = 0;
  virtual RankStatus status() = 0;
  // For how long (us) a thread of the program was held before a collective, in this attempt.
  virtual int64_t waited() { return 0; }

  // --- Stop. Called repeatedly (about every 100 us) until true: every thread of the program is outside of
  // the LH with a complete context, refusals have been checked, and the main thread serves the functions
  // below. A failure (the rank cannot stop) ends the request.
  virtual bool try_stop(Status* failure) = 0;
  // Whether all threads have stopped and only the examination of the state keeps try_stop() false: minutes,
  // if the rank has hundreds of gigabytes in small pages.
  virtual bool examining() { return false; }

  // --- Only while stopped.
  virtual std::string refusal_when_stopped() = 0;  // why the state cannot be saved, or ""
  // Point-to-point messages per world rank, counted before each send begins. Also while try_stop() is false.
  virtual std::vector<PeerCount> sent() = 0;
  // `expected`: messages sent to this rank, per sender. Called again as numbers grow while senders still run.
  virtual void begin_drain(const std::vector<PeerCount>& expected) = 0;
  // True: all expected messages have arrived, and all sends are complete.
  virtual bool drained(Status* failure) = 0;
  virtual void begin_write(const std::string& directory) = 0;
  virtual bool written(Status* failure, ImageSummary* summary) = 0;  // the image is complete and synced

  // --- At any time: whether the program has ever been connected with other ranks by a library (MPI, NCCL).
  // If not, another program may take its rank's place: the next one of a script.
  virtual bool met_others() { return true; }

  // --- At any time: estimated memory of an image taken now, bytes.
  virtual uint64_t memory_bytes() = 0;

  // --- At any time: takes a SIGTERM (for a last version) that no thread can take, since all are stopped.
  virtual bool take_sigterm() { return false; }
  // --- From now on SIGTERM kills the process, unless the program has a handler by now.
  virtual void let_sigterm_kill() {}

  // --- Ends a hold, a stop or an attempt at any stage. Idempotent.
  virtual void resume() = 0;

  // --- The agent's last call: exits immediately. The program stays stopped: its buffers must not be written.
  virtual void leave(int status) = 0;
  // --- Likewise the last call: dies of this signal immediately, even with a handler. The program may run.
  virtual void die(int signal) = 0;
};

}  // namespace cropdl::coord
