// What each thread of the program notes of a collective that it begins, for the agent's thread to read
// (docs/boundaries.md). LH, LH FS base. The writer's part, inline: a few stores; no lock, allocation or
// system call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "interpose/seam/layout.h"

namespace cropdl::boundaries {

struct Token {
  volatile uint64_t number;  // 1 more than its position; 0: it is being written
  volatile uint64_t call;    // the library's number and the function's, kFn_...
  volatile uint64_t what;    // a hash of count and datatype, if the function has them
  volatile uint64_t
      identity;             // of the communicator, as its counting::Record has it; 0: it has no other members
  volatile uint64_t begun;  // collectives begun there by this rank, with this one
  volatile uint64_t caller;  // return address in the program; 0: not known
  volatile uint64_t stack;   // depth of the stack: tells calls from different depths apart
  uint64_t reserved;
};
static_assert(sizeof(Token) == 64);

struct alignas(64) TokenRing {
  static constexpr uint64_t kTokens = 512;
  volatile uint64_t written;  // tokens ever
  Token tokens[kTokens];
};
extern TokenRing ring;

constexpr uint64_t call_of(seam::LibraryNumber library, unsigned function) {
  return static_cast<uint64_t>(library) << 32 | function;
}
constexpr uint32_t library_of(uint64_t call) { return static_cast<uint32_t>(call >> 32); }
// Of a function that makes communicators and the like (MPI_Init too): it counts as begun on its communicator,
// but is none of a loop's calls. Libraries make what they need where they are called first.
constexpr unsigned kMakesObjects = 1u << 31;
constexpr uint32_t function_of(uint64_t call) { return static_cast<uint32_t>(call) & (kMakesObjects - 1); }
inline uint64_t what_of(uint64_t count, uint64_t type) { return count * 0x9e37'79b9'7f4a'7c15 + type; }

// Once the call is counted. `identity` and `begun`: of its record, 0 where nothing is counted. `several`:
// more than one thread may note.
__attribute__((always_inline)) inline void note(uint64_t call, uint64_t what, uint64_t identity,
                                                uint64_t begun, bool several) {
  uint64_t at;
  if (__builtin_expect(several, 0)) {
    at = __atomic_fetch_add(&ring.written, 1, __ATOMIC_RELAXED);
  } else {
    at = ring.written;
    ring.written = at + 1;
  }
  Token& t = ring.tokens[at % TokenRing::kTokens];
  t.number = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // x86-64 keeps the order of stores
  t.call = call;
  t.what = what;
  t.identity = identity;
  t.begun = begun;
  uint64_t caller, stack;
  __asm__ volatile("movq %%gs:%c1, %0" : "=r"(caller) : "i"(offsetof(seam::ThreadRecord, caller)));
  __asm__ volatile("movq %%rsp, %0" : "=r"(stack));
  t.caller = caller;
  t.stack = stack;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t.number = at + 1;
}

}  // namespace cropdl::boundaries
