// Counting collectives: the part that every collective pays, inline. collectives.cpp tells how it meets the
// agent. LH, LH FS base, a thread of the program.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "coord/local_rank.h"
#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {

// The agent wants to be asked before a collective begins.
struct alignas(64) CollectiveHold {
  std::atomic<bool> wanted;
};
extern CollectiveHold collective_hold;

// Where this thread stands, in its own record: several threads may be in different collectives, and the end
// of one's says nothing of the others'.
inline void stand_inside(uint64_t gid) {
  __asm__ volatile("movq %0, %%gs:%c1" ::"re"(gid), "i"(offsetof(seam::ThreadRecord, inside)) : "memory");
}
inline void stand_held(uint64_t gid) {
  __asm__ volatile("movq %0, %%gs:%c1" ::"re"(gid), "i"(offsetof(seam::ThreadRecord, held)) : "memory");
}

// Around a blocking send, if several threads may call MPI: while no others run, messages are drained for it
// (early_drain.h). Not if the program lies below too (a callback of an MPI call): the thread would not park.
inline void stand_sending(bool yes) {
  seam::ThreadRecord* t = seam::current_thread();
  t->sending = yes && t->pinned == 1 ? 1 : 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

inline void count_collective(CommRecord* c, uint64_t n) {
  add_to_counter(const_cast<uint64_t*>(&c->begun), n);
}

inline void announce_collective(CommRecord* c) {
  stand_inside(c->counted);
  count_collective(c, 1);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Counts a collective as begun on `comm`. While ranks agree on a cut, false: it is begin_held's to decide.
inline bool begin_unheld(Vid comm) {
  CommRecord* c = comm_record(comm);
  if (__builtin_expect(!c || !c->counted, 0)) return true;
  announce_collective(c);
  return __builtin_expect(!collective_hold.wanted.load(std::memory_order_relaxed), 1);
}
// After begin_unheld said false. Waits as long as the collective is held; false: the thread must leave the
// LH, return kAgain (nothing has been counted).
bool begin_held(Vid comm);

// For a call that communicates among processes of which no communicator it is given tells. `identity`: any
// number below 2^63 that the others are likely to come to as well. Waits and is ended as a collective.
using coord::kMeeting;
bool begin_held_meeting(uint64_t gid);
inline bool begin_meeting(uint64_t identity) {
  stand_inside(kMeeting | identity);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return __builtin_expect(!collective_hold.wanted.load(std::memory_order_relaxed), 1) ||
         begin_held_meeting(kMeeting | identity);
}
// ... unless `comm`, over which it is collective, has other members.
bool begin_collective_or_meeting(Vid comm, uint64_t identity);

// A call of `function` that this thread makes by itself, and during which no cut may be made. Its identity is
// the function's, the thread's (the records differ in these bits) and the rank's.
inline bool begin_alone(uint32_t function) {
  return begin_meeting(static_cast<uint64_t>(function) << 52 | (seam::gs_base() & 0xff'ffff) << 28 |
                       static_cast<uint32_t>(state->rank));
}

// Both. Every true is followed by one end_collective.
inline bool begin_collective(Vid comm) { return begin_unheld(comm) || begin_held(comm); }

inline void end_collective() { stand_inside(0); }

}  // namespace cropdl::mpi
