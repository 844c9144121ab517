// Shared memory of the ranks of one communicator, in one process or several of one machine. Its name comes
// from the unique id that all ranks have. The first rank makes it; when all are attached, its name is
// removed. If the communicator fails, the name stays, so that late ranks learn of the failure, until a later
// process finds it old and without a living rank. No locks are held in it: a killed rank leaves counters that
// stop moving, and its peers notice that it is gone. Any thread; each rank's own counters are moved by one
// thread at a time.
#pragma once

#include <atomic>
#include <boost/interprocess/mapped_region.hpp>
#include <boost/interprocess/shared_memory_object.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::nccl {

constexpr int kMostRanks = 64;
constexpr size_t kChunk = 256 << 10;     // bytes that a rank publishes to all in one step
constexpr size_t kPairChunk = 64 << 10;  // … and to one rank
constexpr int kSlots = 2;                // chunks in flight: one is read while the next is written

// Describes a collective, so that ranks notice if they call different ones.
struct Description {
  uint32_t kind = 0, datatype = 0, operation = 0, root = 0;
  uint64_t count = 0;
  bool operator==(const Description&) const = default;
};

// The start of the segment; the ranks' parts follow.
struct alignas(64) Header {
  std::atomic<uint32_t> ranks;     // set by the first rank: all must agree
  std::atomic<uint32_t> attached;  // number of ranks that are attached
  std::atomic<uint32_t> failed;    // not 0: the communicator has failed
};

// Identifies a process by its start time (in clock ticks since boot) and its pid, since pids are reused. A
// single word, so that a rank killed while claiming its slot leaves a consistent value. 0: no such process.
uint64_t process_of(int pid);

struct Presence {
  std::atomic<uint64_t> process;  // the process of the rank; 0: none yet
  std::atomic<uint32_t> state;    // a State; kAbsent: attaching
  std::atomic<uint32_t> device;
};
enum State : uint32_t { kAbsent = 0, kPresent = 1, kFinished = 2, kAborted = 3 };

struct alignas(64) RankPart {
  Presence presence;
  alignas(64) std::atomic<uint32_t> doorbell;  // changes whenever this rank may have something to do; a futex
  std::atomic<uint64_t> begun;                 // collectives that this rank has started
  std::atomic<uint64_t> published, consumed;   // in chunks, over the communicator's life
  Description descriptions[2];                 // of collective k: [k & 1]
  std::atomic<uint64_t> said;                  // host exchanges in which this rank has taken part
  unsigned char words[2][128];                 // of exchange k: [k & 1]
};

struct alignas(64) Pair {                // from one rank to another
  std::atomic<uint64_t> sent, received;  // in chunks, over the communicator's life
  uint64_t bytes[kSlots];                // in each slot
  uint64_t message[kSlots];              // the message size in bytes, for each slot's chunk
};

class Segment {
 public:
  // Waits until all `ranks` are attached. Ends early if given_up() returns true (polled every 100 ms), or if
  // another rank dies or fails.
  static Result<std::unique_ptr<Segment>> join(const std::string& token, int rank, int ranks, int device,
                                               const std::function<bool()>& given_up);
  ~Segment();

  const int rank, ranks;
  RankPart& part(int of);
  Pair& pair(int from, int to);
  std::byte* slot(int of, uint64_t chunk);
  std::byte* pair_slot(int from, int to, uint64_t chunk);
  void ring(int whom);
  void ring_all();
  // Waits until this rank's doorbell differs from `heard`; false: 100 ms passed.
  bool wait(uint32_t heard);
  // A rank that will not come back, or -1: its process is gone, or it left early.
  int lost();
  // All ranks exchange `size` (at most 128) bytes; `into`: ranks * size bytes. Ends early as join() does.
  Status exchange(const void* say, size_t size, void* into, const std::function<bool()>& given_up);
  // Allocates memory for messages from this rank to the other, and returns whether it exists. (A rank's own
  // slot() has it from the start.) On a full file system this fails, while a later access would raise SIGBUS.
  bool reserve_pair(int to);
  void leave(State how);

 private:
  Segment(int rank, int ranks, boost::interprocess::shared_memory_object object,
          boost::interprocess::mapped_region region);
  std::byte* beginning();
  void release_slots();
  std::string wait_for_all(const std::function<bool()>& given_up);

  boost::interprocess::shared_memory_object object_;
  boost::interprocess::mapped_region region_;
  std::vector<bool> reserved_;  // the peers for which reserve_pair() succeeded
  bool is_there_ = false;       // this rank is attached
};

// Removes segments of this user's failed communicators that are older than ten minutes and have no living
// rank. The first join of a process calls it.
void remove_left_over_segments();

}  // namespace cropdl::nccl
