// Counting what all members of a group of ranks begin together, in whichever library: collectives of a
// communicator, or what a rank sends to another. The part that every call pays, inline; agreement.cpp tells
// how it meets the agent, docs/cut.md what for. LH, LH FS base, a thread of the program.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "coord/local_rank.h"
#include "interpose/seam/layout.h"
#include "interpose/seam/thread.h"

namespace cropdl::counting {

// Lies in the persistent heap, in a structure of its library.
struct Record {
  uint64_t identity;  // equal on all members and over restarts, with the library's number in bits 56 to 62;
                      // 0: not counted
  volatile uint64_t begun;  // calls begun on it by this rank
};

// The agent wants to be asked before a call that is counted begins.
struct alignas(64) Hold {
  std::atomic<bool> wanted;
};
extern Hold hold_flag;

inline bool held_back() { return __builtin_expect(hold_flag.wanted.load(std::memory_order_relaxed), 0); }

// A checkpoint wants the thread: a blocking call leaves the LH, and the shim calls again.
inline bool stop_wanted() {
  return __builtin_expect((seam::control()->attention & seam::kAttentionStop) != 0, 0);
}

// Where this thread stands, in its own record: several threads may be in different calls, and the end of
// one's says nothing of the others'.
inline void stand_inside(uint64_t identity) {
  __asm__ volatile("movq %0, %%gs:%c1" ::"re"(identity), "i"(offsetof(seam::ThreadRecord, inside))
                   : "memory");
}
inline void stand_held(uint64_t identity) {
  __asm__ volatile("movq %0, %%gs:%c1" ::"re"(identity), "i"(offsetof(seam::ThreadRecord, held)) : "memory");
}

// `several`: more than one thread may be counting. The agent reads it at any time.
__attribute__((always_inline)) inline void add(volatile uint64_t* begun, uint64_t n, bool several) {
  if (__builtin_expect(several, 0)) {
    __atomic_fetch_add(begun, n, __ATOMIC_RELAXED);
  } else {
    *begun = *begun + n;
  }
}

__attribute__((always_inline)) inline void announce(Record* r, bool several) {
  stand_inside(r->identity);
  add(&r->begun, 1, several);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// One call, on a record that is counted. While ranks agree on a cut, false: it is begin_held's to decide.
__attribute__((always_inline)) inline bool begin_unheld(Record* r, bool several) {
  announce(r, several);
  return !held_back();
}
// After begin_unheld said false. Waits as long as the call is held; false: the thread must leave the LH and
// call again (nothing has been counted).
bool begin_held(Record* r);

// For a call that communicates among processes of which no record tells. `identity`: any number below 2^63
// that the others are likely to come to as well. Waits and is ended as the others.
using coord::kSubgroupCall;
bool begin_held_subgroup_call(uint64_t identity);
inline bool begin_meeting(uint64_t identity) {
  stand_inside(kSubgroupCall | identity);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return !held_back() || begin_held_subgroup_call(kSubgroupCall | identity);
}

// Calls that begin together, or not at all: `times` on each record, no record twice.
struct Part {
  Record* record;
  uint64_t times;
};
// What a thread is inside of meanwhile: counted by nobody.
constexpr uint64_t several_of(seam::LibraryNumber library) {
  return static_cast<uint64_t>(library) << 56 | 0xff'ffff'ffff'ffff;
}
// Waits as long as one of them is held; false: as begin_held's.
bool begin_parts(std::span<const Part> parts, seam::LibraryNumber library);

// What was begun, and failed: nobody else has to begin it. Before end().
inline void undo(std::span<const Part> parts) {
  for (const Part& p : parts) add(&p.record->begun, ~p.times + 1, true);
}

// Every true is followed by one end().
inline void end() { stand_inside(0); }

}  // namespace cropdl::counting
