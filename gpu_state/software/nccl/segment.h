// The memory that the ranks of one communicator share, in one process or in several of one machine. It is
// named by the unique id that all ranks hold; whoever comes first makes it, and when all are there its name
// goes. When it comes to nothing the name stays, for ranks that come late to learn of it, until a later
// process finds it old and without a living rank. Nothing in it is locked: a rank that is killed leaves
// counters that no longer move, and its peers notice that it has gone. Any thread; each rank's own counters
// are moved by one thread at a time.
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
constexpr size_t kChunk = 256 << 10;     // bytes that a rank publishes for all at a time
constexpr size_t kPairChunk = 64 << 10;  // … and for one
constexpr int kSlots = 2;                // chunks under way: one is read while the next is written

// What a collective is, so that ranks that do not mean the same find out.
struct Description {
  uint32_t kind = 0, datatype = 0, operation = 0, root = 0;
  uint64_t count = 0;
  bool operator==(const Description&) const = default;
};

// What the segment begins with; the parts of the ranks follow.
struct alignas(64) Header {
  std::atomic<uint32_t> ranks;     // of the first who came: all must mean the same communicator
  std::atomic<uint32_t> attached;  // ranks whose presence is there to be read
  std::atomic<uint32_t> failed;    // not 0: the communicator will never be
};

// A process: its start time (in clock ticks since the system's) and its pid, as pids are used again. In one
// word, for whoever claims a rank by it may be killed right after. 0: there is no such process.
uint64_t process_of(int pid);

struct Presence {
  std::atomic<uint64_t> process;  // whose rank it is; 0: nobody's yet
  std::atomic<uint32_t> state;    // State; kAbsent: it is just coming
  std::atomic<uint32_t> device;
};
enum State : uint32_t { kAbsent = 0, kPresent = 1, kFinished = 2, kAborted = 3 };

struct alignas(64) RankPart {
  Presence presence;
  alignas(64) std::atomic<uint32_t> doorbell;  // moves whenever this rank may have something to do; a futex
  std::atomic<uint64_t> begun;                 // collectives that this rank has begun
  std::atomic<uint64_t> published, consumed;   // chunks, over the communicator's life
  Description descriptions[2];                 // of collective k: [k & 1]
  std::atomic<uint64_t> said;                  // host exchanges that this rank has taken part in
  unsigned char words[2][128];                 // of exchange k: [k & 1]
};

struct alignas(64) Pair {                // from one rank to another
  std::atomic<uint64_t> sent, received;  // chunks, over the communicator's life
  uint64_t bytes[kSlots];                // in each slot
  uint64_t message[kSlots];              // size in bytes of the message that the slot's chunk is of
};

class Segment {
 public:
  // Joins the others; returns when all `ranks` are there. Ends early when given_up() says so (asked every 100
  // ms), or when another rank dies meanwhile or fails.
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
  // Sleeps until this rank's doorbell differs from `heard`; false: 100 ms went by.
  bool wait(uint32_t heard);
  // A rank that will never come again, or -1: its process is gone, or it left without finishing.
  int lost();
  // All ranks say `size` (at most 128) bytes to all; into: ranks * size bytes. Ends early as join() does.
  Status exchange(const void* say, size_t size, void* into, const std::function<bool()>& given_up);
  // Whether there is memory for messages from this rank to the other. One's own slot() has it from the start:
  // a file system that is full is an error here, and would be SIGBUS later.
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
  std::vector<bool> reserved_;  // reserve_pair() of each rank
  bool is_there_ = false;       // as the rank that it says
};

// Removes what communicators of this user that never were have left, if it is older than ten minutes and none
// of its ranks lives. The first join of a process does it.
void remove_left_over_segments();

}  // namespace cropdl::nccl
