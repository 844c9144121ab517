// Counts calls that all members of a group of ranks begin together, of any library: collectives of a
// communicator, or sends to one rank. The inline part of every call; agreement.cpp says how it meets the
// agent, docs/cut.md why. LH, LH FS base, a thread of the program.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "coord/local_rank.h"
#include "interpose/seam/layout.h"
#include "interpose/seam/thread.h"

namespace cropdl::counting {

// In the persistent heap, within a structure of its library.
struct Record {
  uint64_t identity;  // equal on all members and over restarts, with the library's number in bits 56 to 62;
                      // 0: not counted
  volatile uint64_t begun;  // calls begun on it by this rank
};

// Set by the agent: counted calls must ask before they begin.
struct alignas(64) Hold {
  std::atomic<bool> wanted;
};
extern Hold hold_flag;

inline bool held_back() { return __builtin_expect(hold_flag.wanted.load(std::memory_order_relaxed), 0); }

// A checkpoint wants the thread: a blocking call must leave the LH, and the shim calls again.
inline bool stop_wanted() {
  return __builtin_expect((seam::control()->attention & seam::kAttentionStop) != 0, 0);
}

// The call that this thread is inside of, or held before. In its record: other threads may be in other calls.
inline void stand_inside(uint64_t identity) {
  __asm__ volatile("movq %0, %%gs:%c1" ::"re"(identity), "i"(offsetof(seam::ThreadRecord, inside))
                   : "memory");
}
inline void stand_held(uint64_t identity) {
  __asm__ volatile("movq %0, %%gs:%c1" ::"re"(identity), "i"(offsetof(seam::ThreadRecord, held)) : "memory");
}

// Adds to a count that the agent reads at any time. `several`: more than one thread may be counting.
__attribute__((always_inline)) inline void add(volatile uint64_t* begun, uint64_t n, bool several) {
  if (__builtin_expect(several, 0))
    __atomic_fetch_add(begun, n, __ATOMIC_RELAXED);
  else
    *begun = *begun + n;
}

__attribute__((always_inline)) inline void announce(Record* r, bool several) {
  stand_inside(r->identity);
  add(&r->begun, 1, several);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Begins one call on a counted record. Returns false while ranks agree on a cut: then call begin_held.
__attribute__((always_inline)) inline bool begin_unheld(Record* r, bool several) {
  announce(r, several);
  return !held_back();
}
// Call after begin_unheld returned false. Blocks while the call is held. Returns false, with nothing counted,
// if the thread must leave the LH and call again.
bool begin_held(Record* r);

// A subgroup call, among processes that share no record. `identity`: a number below 2^63 that the others are
// likely to compute as well. Blocks, returns and ends like begin_held.
using coord::kSubgroupCall;
bool begin_held_subgroup_call(uint64_t identity);
inline bool begin_meeting(uint64_t identity) {
  stand_inside(kSubgroupCall | identity);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return !held_back() || begin_held_subgroup_call(kSubgroupCall | identity);
}

// Calls that begin together or not at all: `times` on each record; no record appears twice.
struct Part {
  Record* record;
  uint64_t times;
};
// The identity that a thread is inside of during such calls. It is not counted.
constexpr uint64_t several_of(seam::LibraryNumber library) {
  return static_cast<uint64_t>(library) << 56 | 0xff'ffff'ffff'ffff;
}
// Blocks while one of them is held. Returns false as begin_held does.
bool begin_parts(std::span<const Part> parts, seam::LibraryNumber library);

// Takes back calls that began and failed, which no other rank has to begin. Call before end().
inline void undo(std::span<const Part> parts) {
  for (const Part& p : parts) add(&p.record->begun, ~p.times + 1, true);
}

// Each begin that returned true requires one end().
inline void end() { stand_inside(0); }

}  // namespace cropdl::counting
