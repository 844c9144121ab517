// Counting collectives: the part that every collective pays, inline. collectives.cpp tells how it meets the
// agent. LH, LH FS base, a thread of the program.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {

struct alignas(64) Collectives {
  std::atomic<uint64_t> inside;  // gid of the communicator, 0: outside
  std::atomic<uint64_t> held;    // gid of the communicator whose next collective waits, 0: none
  std::atomic<bool> hold;        // the agent wants to be asked
};
extern Collectives collectives;

inline void count_collective(CommRecord* c, uint64_t n) { add(const_cast<uint64_t*>(&c->begun), n); }

inline void announce_collective(CommRecord* c) {
  collectives.inside.store(c->counted, std::memory_order_relaxed);
  count_collective(c, 1);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Counts a collective as begun on `comm`. While ranks agree on a cut, false: it is begin_held's to decide.
inline bool begin_unheld(Vid comm) {
  CommRecord* c = comm_record(comm);
  if (__builtin_expect(!c || !c->counted, 0)) return true;
  announce_collective(c);
  return __builtin_expect(!collectives.hold.load(std::memory_order_relaxed), 1);
}
// After begin_unheld said false. Waits as long as the collective is held; false: the thread must leave the
// LH, return kAgain (nothing has been counted).
bool begin_held(Vid comm);

// For a call that communicates among processes of which no communicator it is given tells. `identity`: any
// number below 2^63 that the others are likely to come to as well. Waits and is ended as a collective.
bool begin_meeting(uint64_t identity);
// ... unless `comm`, over which it is collective, has other members.
bool begin_collective_or_meeting(Vid comm, uint64_t identity);

// Both. Every true is followed by one end_collective.
inline bool begin_collective(Vid comm) { return begin_unheld(comm) || begin_held(comm); }

inline void end_collective() { collectives.inside.store(0, std::memory_order_relaxed); }

}  // namespace cropdl::mpi
